"""Numbers about one model: for the statistics of the protocol, for Prometheus and for the page."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field

from openrknn.serve.plane.job import Stages

__all__ = ["BUCKETS", "Histogram", "Stats", "percentile"]

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds."""
_RECENT = 1024
STAGES = ("queue", "pre", "npu", "post")


@dataclass(slots=True)
class Histogram:
    """Counts per bucket; the last one is for everything above."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.sum += seconds

    @property
    def count(self) -> int:
        return sum(self.counts)


class Stats:
    """How requests went. Written by one thread at a time under its lock, read in copies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.stages = {name: Histogram() for name in (*STAGES, "total")}
        self.failed_seconds = 0.0
        self.successes = 0
        self.failures: Counter[str] = Counter()
        """By the code of the error."""
        self.items = 0
        self.executions = 0
        self.batches: dict[int, list[float]] = {}
        """Items per run -> [runs, pre, npu, post seconds]."""
        self.last_milliseconds = 0
        """Since 1970, as the protocol wants it."""
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self.restarts = 0

    def succeeded(self, stages: Stages, items: int) -> None:
        """One request was answered."""
        total = stages.total
        with self._lock:
            for name in STAGES:
                self.stages[name].observe(getattr(stages, name))
            self.stages["total"].observe(total)
            self._recent.append(total)
            self.successes += 1
            self.items += items
            self.last_milliseconds = time.time_ns() // 1_000_000

    def executed(self, batch: int, pre: float, npu: float, post: float) -> None:
        """One run on a context, for any client."""
        with self._lock:
            self.executions += 1
            row = self.batches.setdefault(batch, [0, 0.0, 0.0, 0.0])
            for place, value in enumerate((1, pre, npu, post)):
                row[place] += value

    def failed(self, code: str, seconds: float) -> None:
        """One request was refused or went wrong."""
        with self._lock:
            self.failures[code] += 1
            self.failed_seconds += seconds

    def restarted(self) -> None:
        """A context was replaced."""
        with self._lock:
            self.restarts += 1

    def recent(self) -> list[float]:
        """Total seconds of the last requests, sorted."""
        with self._lock:
            return sorted(self._recent)

    def mean_npu_seconds(self) -> float:
        """Of one run; 0 before the first."""
        npu = self.stages["npu"]
        return npu.sum / npu.count if npu.count else 0.0


def percentile(ordered: list[float], share: float) -> float | None:
    """The smallest value that at least this share does not exceed; None where there is none."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]
