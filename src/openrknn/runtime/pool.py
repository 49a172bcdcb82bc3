"""`SessionPool`: several sessions of one model with one copy of the weights, for several threads."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.runtime.errors import ClosedError
from openrknn.runtime.io.tensors import Array
from openrknn.runtime.session import Session

__all__ = ["SessionPool"]


class SessionPool:
    """Runs up to `size` inputs at the same time.

        with SessionPool("yolo.rknn", size=3) as pool:
            for outputs in pool.map(frames):        # in the order of the frames
                ...

    Options are those of `Session`. From threads of one's own: `pool.run(...)`, which waits for a free session, or
    `with pool.session() as session`.
    """

    def __init__(self, model: Model | str | os.PathLike[str] | bytes, size: int = 2, **options: Any) -> None:
        if size < 1:
            raise ValueError(f"a pool of {size} sessions cannot run anything")
        self.size = size
        self._idle: queue.SimpleQueue[Session] = queue.SimpleQueue()
        self._sessions: list[Session] = []
        self._lock = threading.Lock()
        self._closed = False
        parsed = model if isinstance(model, Model) else load(model)
        try:
            self._sessions.append(Session(parsed, **options))
            rest = {name: value for name, value in options.items() if name not in {"device", "share_weights_with"}}
            for _ in range(size - 1):
                self._sessions.append(Session(parsed, share_weights_with=self._sessions[0], **rest))
        except BaseException:
            self._close_sessions()
            raise
        for session in self._sessions:
            self._idle.put(session)
        self._workers = ThreadPoolExecutor(max_workers=size, thread_name_prefix="openrknn-pool")

    @property
    def model(self) -> Model:
        return self._sessions[0].model

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session for oneself; waits until one is free."""
        self._check_open()
        session = self._idle.get()
        try:
            yield session
        finally:
            self._idle.put(session)

    def run(self, inputs: object, **options: Any) -> dict[str, Array]:
        """`Session.run` on a free session. A "native" output is good only until that session runs again: copy it."""
        with self.session() as session:
            return session.run(inputs, **options)

    def run_async(self, inputs: object, **options: Any) -> Future[dict[str, Array]]:
        """`run` in a thread of the pool."""
        self._check_open()
        return self._workers.submit(self.run, inputs, **options)

    def map(self, many: Iterable[object], **options: Any) -> Iterator[dict[str, Array]]:
        """Outputs in the order of the inputs; at most two per session are waiting, so a stream may be endless."""
        waiting: list[Future[dict[str, Array]]] = []
        try:
            for inputs in many:
                waiting.append(self.run_async(inputs, **options))
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

    def __enter__(self) -> SessionPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
