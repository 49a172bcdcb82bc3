"""`Instance`: a context in a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np

from openrknn.errors import DeviceError
from openrknn.runtime.profile import RunTimes
from openrknn.serve.datatypes import Array
from openrknn.serve.errors import BadRequestError, ModelFailedError, ServeError
from openrknn.serve.plane.job import Job, Stages
from openrknn.serve.plane.queue import JobQueue
from openrknn.serve.plane.stats import Stats
from openrknn.serve.shared.tensor import Output, Tensor, loaded, put

__all__ = ["Context", "Instance"]

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_PATIENCE_SECONDS = 3.0
"""That a context may be away before its model is not ready: requests wait for it meanwhile."""


class Context(Protocol):
    """What an instance needs of a `Session`."""

    times: RunTimes
    lends_outputs: bool
    """True: what `run` gives is true until the next run only."""

    @property
    def is_alive(self) -> bool:
        """False: it has to be replaced before it can run anything."""

    def run(self, inputs: Mapping[str, Tensor], *, layout: Mapping[str, str], outputs: str) -> dict[str, Array]:
        """As `Session.run`."""

    def set_shapes(self, wanted: Mapping[str, tuple[int, ...]]) -> None:
        """As `Session.set_shapes`."""

    def close(self) -> None:
        """Give everything back."""


class Instance:
    """Takes jobs from the queue and runs them, one after the other.

    What goes wrong with a request is answered and forgotten. What goes wrong with the context is answered, and the
    context is replaced; where that fails it is tried again, with longer and longer pauses, and until then other
    instances do the work. `changed` is called when `problem` changes.
    """

    def __init__(
        self,
        name: str,
        open_context: Callable[[], Context],
        queue: JobQueue,
        stats: Stats,
        *,
        batch: int = 1,
        batch_delay_seconds: float = 0.0,
        is_dynamic: bool = False,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.problem = ""
        """Why it does not work now."""
        self.busy_seconds = 0.0
        """Since it started; the page makes its load of it."""
        self._busy_since: float | None = None
        self._open, self._queue, self._stats = open_context, queue, stats
        self._batch, self._delay, self._is_dynamic = batch, batch_delay_seconds, is_dynamic
        self._changed = changed
        self._closing = threading.Event()
        self._context: Context | None = open_context()
        self._thread = threading.Thread(target=self._work, name=f"openrknn-{name}", daemon=True)

    def start(self) -> None:
        """Begin to take jobs."""
        self._thread.start()

    def close(self, timeout: float | None = None) -> None:
        """After the queue was closed: wait for what runs, then give everything back."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
        if not self._thread.is_alive():
            self._drop()

    def busy(self) -> float:
        """Seconds spent on jobs until now, the current one included."""
        since = self._busy_since
        return self.busy_seconds + (time.monotonic() - since if since is not None else 0.0)

    # -- in the thread -------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            jobs = self._queue.take(most_items=self._batch, delay_seconds=self._delay, unless=self._is_lost)
            if jobs is None:  # its process ended while it had nothing to do
                if not self._revive(DeviceError("its process is gone")):
                    return
                continue
            if not jobs:
                return
            self._busy_since = time.monotonic()
            error = self._serve(jobs)
            self.busy_seconds += time.monotonic() - self._busy_since
            self._busy_since = None
            if error is not None and not self._revive(error):
                return

    def _is_lost(self) -> bool:
        return self._context is None or not self._context.is_alive

    def _serve(self, jobs: list[Job]) -> Exception | None:
        """Run and answer; what went wrong with the context, if anything did."""
        started = time.monotonic()
        if self._batch > 1:
            jobs = _loaded(jobs)
            if not jobs:
                return None
        try:
            assert self._context is not None
            outputs, times = self._run(jobs, self._context)
        except ServeError as error:  # a client's memory is not what it said
            _fail(jobs, error)
            return None
        except (ValueError, TypeError) as error:
            _fail(jobs, BadRequestError(str(error)))
            return None
        except Exception as error:  # noqa: BLE001 - whatever a context does, the others go on
            _fail(jobs, ModelFailedError(f"the model could not run: {str(error) or type(error).__name__}"))
            return error
        items = sum(job.items for job in jobs)
        self._stats.executed(items, times.feed_seconds, times.run_seconds, times.read_seconds)
        first = 0
        for job in jobs:
            mine = outputs
            if self._batch > 1:
                mine = {name: array[_rows(array, first, job.items, self._batch)] for name, array in outputs.items()}
                first += job.items
            stages = Stages(started - job.arrived, times.feed_seconds, times.run_seconds, times.read_seconds, items)
            self._answer(job, mine, stages, lent=self._context.lends_outputs)
        return None

    @staticmethod
    def _answer(job: Job, outputs: Mapping[str, Array], stages: Stages, *, lent: bool) -> None:
        """Outputs go where the client wants them; unrequested ones are dropped."""
        began = time.perf_counter()
        found: dict[str, Output] = {}
        try:
            for name, array in outputs.items():
                if name in job.places:
                    found[name] = put(array, job.places[name], name)
                elif job.wants(name):
                    found[name] = array.copy() if lent else array
        except ServeError as error:
            job.future.set_exception(error)
            return
        stages.post += time.perf_counter() - began
        job.future.set_result((found, stages))

    def _run(self, jobs: list[Job], context: Context) -> tuple[dict[str, Array], RunTimes]:
        first = jobs[0]
        inputs = first.inputs
        if self._batch > 1:
            inputs = {name: _joined([loaded(job.inputs[name]) for job in jobs], self._batch) for name in first.inputs}
        if self._is_dynamic:
            context.set_shapes({name: array.shape for name, array in inputs.items()})
        outputs = context.run(inputs, layout=first.layouts, outputs=first.kind)
        return outputs, context.times

    def _revive(self, error: Exception) -> bool:
        """Replace the context; False when the server closes meanwhile."""
        pause, since = _FIRST_PAUSE, time.monotonic()
        _LOG.error("context %s failed and is being replaced: %s: %s", self.name, type(error).__name__, error)
        self._stats.restarted()
        while True:
            self._drop()
            try:
                self._context = self._open()
            except Exception as again:  # noqa: BLE001 - it is tried again until it works
                # A process that starts again at once costs those who wait a moment, and not their answer.
                if time.monotonic() - since > _PATIENCE_SECONDS or self.problem:
                    self._tell(f"{type(again).__name__}: {again}")
                _LOG.error("context %s cannot be opened: %s; next try in %.1f s", self.name, again, pause)
            else:
                self._tell("")
                return True
            if self._closing.wait(pause):
                return False
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _tell(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self._changed()

    def _drop(self) -> None:
        context, self._context = self._context, None
        if context is None:
            return
        try:
            context.close()
        except Exception as error:  # noqa: BLE001 - it is gone either way
            _LOG.warning("closing context %s failed: %s", self.name, error)


def _fail(jobs: list[Job], error: ServeError) -> None:
    for job in jobs:
        job.future.set_exception(error)


def _loaded(jobs: list[Job]) -> list[Job]:
    """With inputs in the server's memory; a request whose shared memory is gone fails alone."""
    good = []
    for job in jobs:
        try:
            job.inputs = {name: loaded(tensor) for name, tensor in job.inputs.items()}
        except ServeError as error:
            job.future.set_exception(error)
        else:
            good.append(job)
    return good


def _joined(parts: list[Array], batch: int) -> Array:
    """All items behind each other; the last one again and again where there are too few."""
    items = np.concatenate(parts) if len(parts) > 1 else parts[0]
    missing = batch - len(items)
    return items if not missing else np.concatenate([items, np.repeat(items[-1:], missing, axis=0)])


def _rows(array: Array, first: int, items: int, batch: int) -> slice:
    """Where the results of some items are; an output may have several rows per item."""
    each = len(array) // batch
    return slice(first * each, (first + items) * each)
