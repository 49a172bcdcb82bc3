"""`SessionPool`: several sessions of one model with one copy of the weights, for several threads."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from openrknn.container.bundle import Bundle, is_bundle, read_bundle
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.container.specs import Specs, TensorSpec
from openrknn.device import Device
from openrknn.names import NamedOptions
from openrknn.runtime.engine import SessionDevice
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.futures import RunFuture
from openrknn.runtime.io.outputs import OutputKind, Outputs
from openrknn.runtime.program.cpu import CustomOperator
from openrknn.runtime.runner import NodeArg, Runner
from openrknn.runtime.session import Session


class SessionPool(NamedOptions, Runner):
    """Runs up to `size` inputs at the same time.

        with SessionPool("yolo.rknn", size=3) as pool:
            for outputs in pool.map(frames):        # in the order of the frames
                ...

    The options are those of `Session`, and so are `run`, `run_async` and `map`. From your own threads: `pool.run(...)`,
    which waits for a free session, or `with pool.session() as session`. An output "native" is good only until the
    session that made it runs again: copy it.
    """

    def __init__(
        self,
        model: Model | Bundle | str | os.PathLike[str] | bytes,
        size: int = 2,
        *,
        device: str | Device = "auto",
        cores: int | None = None,
        core_mask: int | None = None,
        custom_ops: Mapping[str, CustomOperator] | None = None,
        share_weights_with: Session | None = None,
        strict: bool = False,
        max_work: int | None = None,
        max_memory: int | None = None,
    ) -> None:
        if size < 1:
            raise ValueError(f"a pool of {size} sessions cannot run anything")
        self.size = size
        """How many inputs it runs at the same time."""
        self._idle: queue.SimpleQueue[Session] = queue.SimpleQueue()
        self._sessions: list[Session] = []
        self._lock = threading.Lock()
        self._closed = False
        parsed = _parsed(model)
        try:
            for _ in range(size):
                donor = self._sessions[0] if self._sessions else share_weights_with
                where = "auto" if self._sessions else device
                session = Session(
                    parsed, where, cores=cores, core_mask=core_mask, custom_ops=custom_ops,
                    share_weights_with=donor, strict=strict, max_work=max_work, max_memory=max_memory,
                )  # fmt: skip
                self._sessions.append(session)
        except BaseException:
            self._close_sessions()
            raise
        for session in self._sessions:
            self._idle.put(session)
        self._workers = ThreadPoolExecutor(max_workers=size, thread_name_prefix="openrknn-pool")

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def model(self) -> Model:
        """The model that all sessions run."""
        return self._sessions[0].model

    @property
    def device(self) -> SessionDevice:
        """Where it runs; `device.name` says which one "auto" took."""
        return self._sessions[0].device

    @property
    def inputs(self) -> Specs:
        """What to feed: by number, or by name."""
        return self._sessions[0].inputs

    @property
    def outputs(self) -> Specs:
        """What comes out: by number, or by name."""
        return self._sessions[0].outputs

    def _node_arg(self, spec: TensorSpec) -> NodeArg:
        return self._sessions[0]._node_arg(spec)

    def __repr__(self) -> str:
        return f"<SessionPool of {self.size}: {self._sessions[0]!r}>"

    # -- running -------------------------------------------------------------------------------------------------

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session of your own for a while; waits until one is free."""
        self._check_open()
        session = self._idle.get()
        try:
            yield session
        finally:
            self._idle.put(session)

    def _run(
        self, inputs: object, layout: str | Mapping[str, str] | None, pass_through: bool, outputs: OutputKind
    ) -> Outputs:
        with self.session() as session:
            return session.run(inputs, layout=layout, pass_through=pass_through, outputs=outputs)

    def _executor(self) -> ThreadPoolExecutor:
        self._check_open()
        return self._workers

    def map(
        self, many: Iterable[object], *, layout: str | Mapping[str, str] | None = None, pass_through: bool = False,
        outputs: OutputKind = "float",
    ) -> Iterator[Outputs]:  # fmt: skip
        """Outputs in the order of the inputs; at most two per session are waiting, so a stream may be endless."""
        waiting: list[RunFuture[Outputs]] = []
        try:
            for inputs in many:
                waiting.append(
                    self.run_async(inputs, layout=layout, pass_through=pass_through, outputs=outputs)
                )
                if len(waiting) >= 2 * self.size:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Wait for what runs, then give everything back. Closing twice is allowed."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._workers.shutdown(wait=True, cancel_futures=True)
        self._close_sessions()

    def _close_sessions(self) -> None:
        closers: list[Callable[[], None]] = [session.close for session in reversed(self._sessions)]
        for close in closers:
            close()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the pool is closed; open another one")


def _parsed(model: Model | Bundle | str | os.PathLike[str] | bytes) -> Any:
    """Read once for all sessions: a model, or one in parts."""
    if isinstance(model, Model | Bundle):
        return model
    return read_bundle(model) if is_bundle(model) else load(model)
