"""`WorkerHost`: keeps one worker alive for a model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from openrknn.errors import UnsupportedError
from openrknn.serve.plane.card import Card
from openrknn.serve.plane.host import no_report
from openrknn.serve.plane.instance import Context
from openrknn.serve.worker.process import WorkerDiedError, WorkerProcess
from openrknn.serve.worker.remote import RemoteContext, words_of

__all__ = ["WorkerHost", "reference"]

_STEADY_SECONDS = 60.0
"""A worker that lived for so long was well: the next crash is the first one again."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_REPORT_SECONDS = 120.0


class WorkerHost:
    """One model version in a worker. A worker that is gone is replaced when the next context is opened: at once after
    its first crash, then after pauses that double, so that a model that always crashes does not keep the machine busy.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        *,
        device: str,
        cores: int | None,
        warm_up: bool,
        memory_bytes: int,
        load_seconds: float,
        run_seconds: float,
        open_session: str,
        describe: str | None = None,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._name, self._lost, self._can_report = name, lost, describe is not None
        self._load_seconds, self._run_seconds = load_seconds, run_seconds
        self._question: dict[str, Any] = {
            "do": "load",
            "path": str(path),
            "device": device,
            "cores": cores,
            "warm_up": warm_up,
            "memory_bytes": memory_bytes,
            "open_session": open_session,
            "describe": describe,
        }
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._is_closed = False
        self._started = self._not_before = 0.0
        self._pause = 0.0
        self._last_words = ""
        self.restarts = 0
        self.card = self._start()

    # -- life ----------------------------------------------------------------------------------------------------

    def _start(self) -> Card:
        worker = WorkerProcess(self._name, self._lost)
        try:
            answer = worker.ask(self._question, seconds=self._load_seconds)
            if "card" not in answer:
                raise UnsupportedError(words_of(answer))
            card = Card.from_json(answer["card"])
        except BaseException:
            worker.close()
            raise
        self._worker, self._started = worker, time.monotonic()
        return card

    def _live_worker(self) -> WorkerProcess:
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
                self._start()
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
        if time.monotonic() - self._started > _STEADY_SECONDS:
            self._pause = 0.0
        self._wait_longer(words)
        # Every context of this process hears of it now, so that the model is ready only if one of them can work.
        self._lost()

    def _wait_longer(self, words: str) -> None:
        self._last_words = words
        self._not_before = time.monotonic() + self._pause
        self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)

    # -- what a host does ----------------------------------------------------------------------------------------

    def open_context(self) -> tuple[Context, str]:
        """A context in the worker that lives, or in a new one."""
        context = RemoteContext(
            self._live_worker(), self.card, load_seconds=self._load_seconds, run_seconds=self._run_seconds
        )
        return context, context.device_name

    def report(self) -> str:
        """Made by the worker: a large model takes seconds and much memory."""
        if not self._can_report:
            raise no_report()
        answer = self._live_worker().ask({"do": "report"}, seconds=_REPORT_SECONDS)
        if "html" not in answer:
            raise UnsupportedError(words_of(answer))
        return str(answer["html"])

    def pids(self) -> Sequence[int]:
        """The worker's."""
        worker = self._worker
        return (worker.pid,) if worker is not None else ()

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            self._is_closed = True
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()


def reference(function: object) -> str:
    """`module:name` of a function or class that a worker can import; ValueError for what only this process has."""
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not module or not name or "<" in name or module == "__main__":
        raise ValueError(f"{function!r} cannot be imported by a worker process; use workers='in-process'")
    return f"{module}:{name}"
