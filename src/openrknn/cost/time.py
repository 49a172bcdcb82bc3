"""How long a task takes, and what bounds it.

    time of a task = max(array, table, DPU, pooling, memory) + start of the task
    time of a job  = the sum over its tasks + start of the job

The five work at once, because a task streams: while the array multiplies, the DPU writes what is finished and the DMA
fetches what comes next. So the slowest one counts. Cores that work together share the memory, and the slowest of them
counts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from openrknn.backports import StrEnum
from openrknn.cost.boards import Board
from openrknn.cost.work import Work

__all__ = ["Bound", "Spent", "spent_by", "total"]


class Bound(StrEnum):
    """What a task waits for."""

    ARRAY = "array"
    TABLE = "table"
    DPU = "DPU"
    POOLING = "pooling"
    MEMORY = "memory"
    START = "start"


class Spent(NamedTuple):
    """Seconds of one core, by what they were spent on: the sum is the time."""

    array: float = 0.0
    table: float = 0.0
    dpu: float = 0.0
    pooling: float = 0.0
    memory: float = 0.0
    start: float = 0.0

    @property
    def seconds(self) -> float:
        return sum(self)

    @property
    def bound(self) -> Bound:
        """Where most of the time goes."""
        return max(zip(self, Bound, strict=True), key=lambda entry: entry[0])[1]

    @property
    def by_bound(self) -> Mapping[Bound, float]:
        return dict(zip(Bound, self, strict=True))

    def plus(self, other: Spent) -> Spent:
        return Spent(*(a + b for a, b in zip(self, other, strict=True)))


def spent_by(work: Work, board: Board) -> Spent:
    """One task. Nothing is spent on what others hide."""
    parts = (
        work.array_cycles / board.hertz,
        work.table_elements / board.table_rate / board.hertz,
        work.dpu_elements / board.dpu_rate / board.hertz,
        work.pooling_cycles / board.hertz,
        board.memory_seconds(work.moved_bytes, work.streamed_bytes),
    )
    longest = max(parts)
    return Spent(start=board.task_seconds)._replace(**{Spent._fields[parts.index(longest)]: longest})


def total(parts: Iterable[Spent]) -> Spent:
    """All of them, one after the other."""
    result = Spent()
    for part in parts:
        result = result.plus(part)
    return result
