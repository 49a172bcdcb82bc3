"""`Supervisor`: one worker that is alive, or the reason why there is none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from openrknn.serve.worker.process import WorkerDiedError, WorkerProcess

__all__ = ["Supervisor"]

T = TypeVar("T")
_STEADY_SECONDS = 60.0
"""A worker that lived for so long was well: the next crash is the first one again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0


class Supervisor(Generic[T]):
    """Replaces a worker that is gone when somebody needs it: at once after its first crash, then after pauses that
    double, so that a model that always crashes does not keep the machine busy.

    `spawn` starts a process, `load` makes it ready; what that gives is what `start` gives.
    """

    def __init__(self, spawn: Callable[[], WorkerProcess], load: Callable[[WorkerProcess], T]) -> None:
        self._spawn, self._load = spawn, load
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._is_closed = False
        self._started = self._not_before = 0.0
        self._pause = 0.0
        self._last_words = ""
        self.restarts = 0

    def start(self) -> T:
        """The first one."""
        worker = self._spawn()
        try:
            found = self._load(worker)
        except BaseException:
            worker.close()
            raise
        self._worker, self._started = worker, time.monotonic()
        return found

    def live(self) -> WorkerProcess:
        """The worker, or a new one; WorkerDiedError while it has to pause."""
        with self._lock:
            if self._is_closed:
                raise WorkerDiedError("the model is being unloaded")
            if self._worker is not None and self._worker.is_alive:
                return self._worker
            self._bury()
            left = self._not_before - time.monotonic()
            if left > 0:
                raise WorkerDiedError(f"{self._last_words}; it starts again in {left:.1f} s")
            try:
                self.start()
            except BaseException as error:
                self._wait_longer(str(error))
                raise
            assert self._worker is not None
            return self._worker

    def _bury(self) -> None:
        """Remember why the worker is gone, and how long to wait before there is another one."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        self.restarts += 1
        words = str(worker.died())
        worker.close()
        # Every context of this process hears of it now, so that the model is ready only if one of them can work.
        worker.ended()
        if time.monotonic() - self._started > _STEADY_SECONDS:
            self._pause = 0.0
        self._wait_longer(words)

    def _wait_longer(self, words: str) -> None:
        self._last_words = words
        self._not_before = time.monotonic() + self._pause
        self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)

    @property
    def problem(self) -> str:
        """Why there is none now; empty: there is one, or the next who needs it gets one."""
        worker = self._worker
        if worker is not None and worker.is_alive:
            return ""
        left = self._not_before - time.monotonic()
        return f"{self._last_words}; it starts again in {left:.1f} s" if left > 0 else ""

    def pids(self) -> Sequence[int]:
        """The worker's."""
        worker = self._worker
        return (worker.pid,) if worker is not None else ()

    def unload(self) -> None:
        """End the worker; the next who needs it gets a new one."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            self._is_closed = True
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()
