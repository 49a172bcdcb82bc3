"""`WorkerHost`: keeps one worker alive for a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from openrknn.errors import UnsupportedError
from openrknn.serve.plane.host import no_report
from openrknn.serve.plane.instance import Context
from openrknn.serve.plane.model_info import ModelInfo
from openrknn.serve.worker.process import WorkerProcess
from openrknn.serve.worker.remote import RemoteContext, words_of
from openrknn.serve.worker.supervisor import Supervisor

__all__ = ["WorkerHost", "reference"]

_REPORT_SECONDS = 120.0


class WorkerHost:
    """One model version in a worker. A worker that is gone is replaced when the next context is opened."""

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
        self._can_report = describe is not None
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
        self._supervisor = Supervisor(lambda: WorkerProcess(name, lost), self._load)
        self.card = self._supervisor.start()

    @property
    def restarts(self) -> int:
        """Workers that ended and were replaced."""
        return self._supervisor.restarts

    def _load(self, worker: WorkerProcess) -> ModelInfo:
        answer = worker.ask(self._question, seconds=self._load_seconds)
        if "card" not in answer:
            raise UnsupportedError(words_of(answer))
        return ModelInfo.from_json(answer["card"])

    # -- what a host does ----------------------------------------------------------------------------------------

    def open_context(self) -> tuple[Context, str]:
        """A context in the worker that lives, or in a new one."""
        context = RemoteContext(
            self._supervisor.live(), self.card, load_seconds=self._load_seconds, run_seconds=self._run_seconds
        )
        return context, context.device_name

    def report(self) -> str:
        """Made by the worker: a large model takes seconds and much memory."""
        if not self._can_report:
            raise no_report()
        answer = self._supervisor.live().ask({"do": "report"}, seconds=_REPORT_SECONDS)
        if "html" not in answer:
            raise UnsupportedError(words_of(answer))
        return str(answer["html"])

    def pids(self) -> Sequence[int]:
        """The worker's."""
        return self._supervisor.pids()

    def close(self) -> None:
        """End the worker."""
        self._supervisor.close()


def reference(function: object) -> str:
    """`module:name` of a function or class that a worker can import; ValueError for what only this process has."""
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not module or not name or "<" in name or module == "__main__":
        raise ValueError(f"{function!r} cannot be imported by a worker process; use workers='in-process'")
    return f"{module}:{name}"
