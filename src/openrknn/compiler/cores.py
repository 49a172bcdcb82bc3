"""Which steps several cores share, and whether a model is worth more than one task list.

The rule: a step is shared if the slowest core, meeting included, is estimated to save a microsecond. Lists for two and
three cores are written if three cores save a tenth of the model's cycles that way. Only what the vendor's files share
is shared then: convolutions, additions and copies. Lookup tables, pooling and repeated pixels are core 0's in all of
them, so they are shared for whoever is bold, or asks for the lists and gets all shares.
"""

from __future__ import annotations

from openrknn.compiler.program import Program, Step, Task
from openrknn.compiler.traffic import traffic_of

__all__ = ["CORE_COUNTS", "choose_shares"]

CORE_COUNTS = (2, 3)
_MOST_CORES = 3
_SAVED_CYCLES = 1000
"""A microsecond: what a meeting must be worth."""
_SAVED_PART = 0.1
_MEETING_CYCLES = 15
"""The commands of the task in which cores meet."""
_COMMAND_CYCLES = 65
"""To fetch the commands of a task that writes all registers."""


def choose_shares(program: Program, cores: int | None, *, bold: bool = False) -> None:
    """Drop the shares that are not to be written; `cores` is what the user asked for, None if nothing."""
    for step in program.steps:
        if cores == 1 or (cores is None and not bold and not _is_proven(step)):
            step.shares.clear()
        for count, lists in list(step.shares.items()):
            if not all(lists) or (cores is None and _saved(step, count) < _SAVED_CYCLES):
                del step.shares[count]
    if cores is None:
        whole = sum(_cycles(step.tasks) for step in program.steps)
        saved = sum(_saved(step, _MOST_CORES) for step in program.steps if _MOST_CORES in step.shares)
        if saved < whole * _SAVED_PART:
            for step in program.steps:
                step.shares.clear()


def _is_proven(step: Step) -> bool:
    """Whether files of the vendor's have such a step on several cores."""
    return step.table is None and step.type != "Resize" and all("PPU" not in task.blocks for task in step.tasks)


def _saved(step: Step, cores: int) -> float:
    slowest = max(_cycles(tasks) for tasks in step.shares[cores])
    return _cycles(step.tasks) - slowest - _MEETING_CYCLES


def _cycles(tasks: list[Task]) -> float:
    return sum(traffic_of(task).cycles + _COMMAND_CYCLES for task in tasks)
