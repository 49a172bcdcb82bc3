"""How much work and memory a task asks for, and how much it may: known from its configuration, before it runs.

A few bytes of registers can ask for a convolution that takes an hour, or for cubes of many gigabytes. Real networks ask
for work in proportion to their weights and commands, so the limits grow with the size of the file:

    work    operations of one run: multiply-accumulates, and 32 for each element that the DPU or the PPU handles
    memory  bytes of the intermediate results of one task
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from openrknn.errors import BudgetError
from openrknn.npu.asked import Demand
from openrknn.quantities import FACTORS, number_from_environment
from openrknn.records import dataclass

if TYPE_CHECKING:
    from openrknn.npu.task import Step

__all__ = ["MEMORY_VARIABLE", "UNLIMITED", "WORK_VARIABLE", "Budget", "Demand", "demand"]

WORK_VARIABLE = "OPENRKNN_MAX_WORK"
MEMORY_VARIABLE = "OPENRKNN_MAX_MEMORY"
_FREE_WORK, _WORK_PER_BYTE = 32 * 10**9, 200_000
_FREE_MEMORY, _MEMORY_PER_BYTE = 1 << 30, 256
_PART_OF_MACHINE = 0.75


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may ask for; None: whatever it likes."""

    work: int | None = None
    memory: int | None = None

    @classmethod
    def for_file(cls, size_bytes: int, *, work: int | None = None, memory: int | None = None) -> Budget:
        """The limits for a file of this size: as given, as the environment says, or generous ones."""
        if work is None:
            work = number_from_environment(WORK_VARIABLE)
        if memory is None:
            memory = number_from_environment(MEMORY_VARIABLE)
        usual = min(_FREE_MEMORY + _MEMORY_PER_BYTE * size_bytes, int(_PART_OF_MACHINE * _machine_bytes()))
        return cls(
            _FREE_WORK + _WORK_PER_BYTE * size_bytes if work is None else work, usual if memory is None else memory
        )

    def check(self, steps: Iterable[Step], *, natively: bool = False) -> int:
        """BudgetError for the first task that asks for too much; the operations of all of them.

        `natively`: count only the memory that every way of running it needs.
        """
        total = 0
        for step in steps:
            asked = demand(step, natively=natively or step.native is not None)
            total += asked.work
            try:
                self.check_memory(asked.memory, f"a task ({step.kind})")
                self.check_work(total, f"the tasks up to this one ({step.kind})")
            except BudgetError as error:
                error.task, error.operator = step.task, str(step.operator)
                raise
        return total

    def check_work(self, asked: int, who: str) -> None:
        """BudgetError if `who` asks for more operations than a run may have."""
        if self.work is not None and asked > self.work:
            raise BudgetError(
                f"{who}: {asked:,} operations asked for, {self.work:,} allowed. Real models stay far below; if this "
                f"one is real, allow more with Session(max_work=...) or {WORK_VARIABLE}, for example "
                f"{WORK_VARIABLE}={_rounded(asked)}"
            )

    def check_memory(self, asked: int, who: str) -> None:
        """BudgetError if `who` needs more bytes for its intermediate results than there may be."""
        if self.memory is not None and asked > self.memory:
            raise BudgetError(
                f"{who}: {asked:,} bytes of memory needed, {self.memory:,} allowed. Real models stay far below; if "
                f"this one is real, allow more with Session(max_memory=...) or {MEMORY_VARIABLE}, for example "
                f"{MEMORY_VARIABLE}={_rounded(asked)}"
            )


UNLIMITED = Budget()


def demand(step: Step, *, natively: bool = False) -> Demand:
    """What a task asks for, as NumPy runs it; `natively`: the memory of its kernel."""
    from openrknn.npu.demand import demand_of  # here: a program from the cache has no steps

    return demand_of(step, natively=natively)


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _rounded(asked: int) -> str:
    """A little more, in the form that the environment takes."""
    for suffix, factor in reversed(FACTORS.items()):
        if asked >= factor:
            return f"{-(-asked // factor) + 1}{suffix}"
    return str(asked)
