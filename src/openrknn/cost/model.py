"""What a model costs: operators with their tasks, bytes, cycles and time; a whole model with its range.

Cycles are time at the chip's highest clock. For chips without a board's figure they are in the units of a relative and
good for comparing; there is no time then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from openrknn.chips import Chip
from openrknn.cost.boards import Board, board_of
from openrknn.cost.time import Bound, Spent, spent_by, total
from openrknn.cost.work import Work

__all__ = ["Cost", "OperatorCost", "operator_cost"]

_IDLE = 0.05
_NAMES = 3
"""Fields of an operator that are no amounts."""


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """One operator of the NPU; shared by cores, bytes are those of all, cycles and time those of the slowest."""

    index: int
    type: str
    name: str
    tasks: int
    read_bytes: int
    written_bytes: int
    command_bytes: int
    macs: int
    cycles: int
    array_cycles: int
    """Of which the multiply-accumulate array works so many."""
    memory_cycles: int
    """That the memory needs alone."""
    spent: Spent
    """Seconds of the slowest core, whether the board has been measured or not."""

    @property
    def moved_bytes(self) -> int:
        return self.read_bytes + self.written_bytes + self.command_bytes

    @property
    def bound(self) -> Bound:
        return self.spent.bound

    def plus(self, other: OperatorCost) -> OperatorCost:
        """Both together under the first one's name."""
        numbers = [entry.name for entry in fields(self)][_NAMES:-1]
        sums = {name: getattr(self, name) + getattr(other, name) for name in numbers}
        return replace(self, **sums, spent=self.spent.plus(other.spent))


@dataclass(frozen=True, slots=True)
class Cost:
    """A whole model. Shared by cores: tasks and bytes of all of them, cycles of the slowest at each operator."""

    operators: tuple[OperatorCost, ...]
    submits: int
    """Jobs: runs of the NPU between which the CPU works, or a table is loaded without ping-pong."""
    board: Board
    cpu_operators: int = 0
    """Operators of the CPU, whose time is not counted here."""
    unknown: int = 0
    """Operators whose commands could not be decoded; they are not counted either."""

    def __add__(self, other: Cost) -> Cost:
        """One after the other, on the same board."""
        return Cost(
            self.operators + other.operators, self.submits + other.submits, self.board,
            self.cpu_operators + other.cpu_operators, self.unknown + other.unknown,
        )  # fmt: skip

    @property
    def tasks(self) -> int:
        return sum(entry.tasks for entry in self.operators)

    @property
    def moved_bytes(self) -> int:
        return sum(entry.moved_bytes for entry in self.operators)

    @property
    def cycles(self) -> int:
        return sum(entry.cycles for entry in self.operators)

    @property
    def macs(self) -> int:
        return sum(entry.macs for entry in self.operators)

    @property
    def spent(self) -> Spent:
        return total(entry.spent for entry in self.operators)

    @property
    def time_ms(self) -> float | None:
        """None where no board figure exists. Operators of the CPU are not in it."""
        return self.spent.seconds * 1e3 if self.board.is_fitted else None

    @property
    def low_ms(self) -> float | None:
        """The least time: no published figure of a board was further below its prediction."""
        return None if self.time_ms is None or self.board.low is None else self.time_ms * self.board.low

    @property
    def high_ms(self) -> float | None:
        return None if self.time_ms is None or self.board.high is None else self.time_ms * self.board.high

    @property
    def open_driver_ms(self) -> float | None:
        """`time_ms` with jobs that start as slowly as an open driver's; None if not measured."""
        if self.time_ms is None or self.board.open_submit_seconds is None:
            return None
        return self.time_ms + 1e3 * self.submits * (self.board.open_submit_seconds - self.board.submit_seconds)

    @property
    def shares(self) -> Mapping[Bound, float]:
        """Bound -> its part of the time, the largest first."""
        spent = self.spent
        whole = spent.seconds or 1.0
        return dict(sorted(((b, s / whole) for b, s in spent.by_bound.items()), key=lambda entry: -entry[1]))


def operator_cost(
    index: int, kind: str, name: str, cores: Sequence[Sequence[Work]], chip: Chip, *, submits: int = 1
) -> OperatorCost:
    """From the tasks of each core; `submits`: jobs that begin with it."""
    everything = Work()
    for works in cores:
        for work in works:
            everything = everything.plus(work)
    moved = [sum(work.moved_bytes for work in works) for works in cores]
    busy = math.ceil(sum(moved) / max(*moved, 1) - _IDLE)  # a core that only meets the others takes no memory away
    board = board_of(chip).shared_by(max(busy, 1))
    times = [total(spent_by(work, board) for work in works) for works in cores]
    start = Spent(start=submits * board.submit_seconds)
    spent = max(times, key=lambda entry: entry.seconds).plus(start)
    return OperatorCost(
        index, kind, name, everything.tasks, everything.read_bytes, everything.written_bytes, everything.command_bytes,
        everything.macs, cycles=round(spent.seconds * board.hertz),
        array_cycles=max(sum(work.array_cycles for work in works) for works in cores),
        memory_cycles=round(max(
            board.memory_seconds(sum(work.moved_bytes for work in works), sum(work.streamed_bytes for work in works))
            for works in cores
        ) * board.hertz),
        spent=spent,
    )  # fmt: skip
