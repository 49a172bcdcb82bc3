"""A campaign of valid tasks: workers judge what `valid.Tasks` makes, and nothing may fail."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.fuzzing.campaign import Limits, Worker, WorkerLostError, cause_of
from tools.fuzzing.judge import FAILURES, OUTCOMES, Verdict

__all__ = ["TaskCampaign", "replay_task"]

_SAY_SECONDS = 5
_KEPT_PER_CAUSE = 5


@dataclass(slots=True)
class TaskCampaign:
    """`run` judges `count` tasks, or as many as `minutes` allow."""

    tasks: Iterator[dict[str, Any]]
    seed: int
    keep: Path
    folder: Path | None
    limits: Limits = field(default_factory=Limits)
    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(kind of task, "native", "NumPy" or "refused") -> how many."""
    _causes: Counter[str] = field(default_factory=Counter)
    _features: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _next: int = 0
    _begun: float = 0.0
    _said: float = 0.0

    def run(self, count: int, workers: int, minutes: float | None = None) -> int:
        """The number of tasks that failed."""
        self._begun = self._said = time.monotonic()
        end = None if minutes is None else self._begun + 60 * minutes
        threads = [threading.Thread(target=self._work, args=(count, end)) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(self.outcomes[name] for name in FAILURES)

    def table(self) -> str:
        """How many had which outcome; of which kind, and who computed them; why NumPy did."""
        total = max(sum(self.outcomes.values()), 1)
        rows = [f"  {name:18}{self.outcomes[name]:9}{100 * self.outcomes[name] / total:8.2f} %" for name in OUTCOMES]
        kinds = sorted({kind for kind, _ in self.kinds})
        for kind in kinds:
            shown = ", ".join(f"{self.kinds[kind, way]} {way}" for way in ("native", "NumPy", "refused"))
            rows.append(f"  {kind:18}{shown}")
        causes = [f"  {number:6} x {cause}" for cause, number in self._causes.most_common(40)]
        return "\n".join((*rows, *(["failures by cause:"] if causes else []), *causes))

    def reasons(self) -> str:
        """Why tasks were left to NumPy or refused by it."""
        return "\n".join(f"  {number:6} x {reason}" for reason, number in self._features.most_common())

    def _work(self, count: int, end: float | None) -> None:
        worker = Worker(self.folder, self.limits)
        while True:
            with self._lock:
                if self._next >= count or (end is not None and time.monotonic() > end):
                    break
                number, self._next = self._next, self._next + 1
                task = next(self.tasks)
            try:
                verdict: Verdict = worker.ask(task)["verdict"]
            except WorkerLostError as lost:
                verdict = lost.verdict
            with self._lock:
                self._take(number, task, verdict)
        worker.close()

    def _take(self, number: int, task: dict[str, Any], verdict: Verdict) -> None:
        self.outcomes[verdict.outcome] += 1
        for feature in verdict.features:
            kind, _, reason = feature.partition(": ")
            is_refused = reason.startswith("refused")
            self.kinds[kind, "native" if reason == "native" else "refused" if is_refused else "NumPy"] += 1
            self._features[feature] += 1
        if verdict.failed:
            cause = cause_of(verdict)
            self._causes[cause] += 1
            if self._causes[cause] <= _KEPT_PER_CAUSE:
                self.keep.mkdir(parents=True, exist_ok=True)
                record = {"outcome": verdict.outcome, "detail": verdict.detail, "task": task}
                (self.keep / f"task-{self.seed}-{number}.json").write_text(json.dumps(record, indent=1) + "\n")
        if time.monotonic() - self._said > _SAY_SECONDS:
            self._said = time.monotonic()
            done = sum(self.outcomes.values())
            failed = sum(self.outcomes[name] for name in FAILURES)
            line = f"{done} tasks, {done / (self._said - self._begun):.1f}/s, {failed} failed"
            print(f"\r{line}", end="" if sys.stderr.isatty() else "\n", file=sys.stderr)


def replay_task(path: Path, folder: Path | None, limits: Limits) -> int:
    """1 if the stored task fails."""
    worker = Worker(folder, limits)
    try:
        verdict: Verdict = worker.ask(json.loads(path.read_text())["task"])["verdict"]
    except WorkerLostError as lost:
        verdict = lost.verdict
    finally:
        worker.close()
    print(f"{path.name}: {verdict.outcome}\n{verdict.detail}")
    return int(verdict.failed)
