"""Which steps several cores share, and whether a model is worth more than one task list.

The rule: a step is shared if the slowest core, meeting included, is estimated to save a microsecond. By
`openrknn.cost`, where cores share the memory: three of them make a step that waits for it 1.6 times as fast, not
three times. Lists for two and three cores are written if three cores save a tenth of the model's time that way, after
what it costs that each operator is a job of its own then. Only what the vendor's files share is shared: convolutions,
additions and copies. Lookup tables, pooling and repeated pixels are core 0's in all of them, so they are shared only
for callers that request it, or that ask for the lists and get all shares.
"""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.compiler.cost import work_of_task
from openrknn.compiler.program import Program, Step, Task
from openrknn.compiler.targets import Target
from openrknn.cost import board_of, spent_by
from openrknn.task.kinds import Pooling

CORE_COUNTS = (2, 3)
_MOST_CORES = 3
_SAVED_SECONDS = 1e-6
"""What a meeting must be worth."""
_SAVED_PART = 0.1
_COMMAND_BYTES = 1040
"""The commands of a task that writes all registers."""


def choose_shares(program: Program, cores: int | None, *, bold: bool = False) -> None:
    """Drop the shares that are not to be written; `cores` is what the user asked for, None if nothing."""
    target = program.target
    for step in program.steps:
        if cores == 1 or (cores is None and not bold and not _is_proven(step)):
            step.shares.clear()
        for count, lists in list(step.shares.items()):
            if not all(lists) or (cores is None and _saved(step, count, target) < _SAVED_SECONDS):
                del step.shares[count]
    if cores is None:
        whole = sum(_seconds(step.tasks, target) for step in program.steps)
        saved = sum(_saved(step, _MOST_CORES, target) for step in program.steps if _MOST_CORES in step.shares)
        jobs = sum(bool(step.tasks) for step in program.steps)
        saved -= board_of(target.chip).submit_seconds * max(jobs - 1, 0)
        if saved < whole * _SAVED_PART:
            for step in program.steps:
                step.shares.clear()


def join_shares(program: Program, *, everything: bool = False) -> None:
    """Drop the shares that save nothing where all steps are one job: core 0 goes on alone there.

    All of them, if they do not save a tenth of the time. `everything`: keep all of which two cores have a part.
    """
    target = program.target
    gained = 0.0
    for group in _groups(program.steps):
        spent = sum(_seconds(step.tasks, target) for step in group)
        lists = [[task for step in group for task in step.shares[_MOST_CORES][core]] for core in range(_MOST_CORES)]
        busy = sum(map(bool, lists))
        slowest = max(_seconds(tasks, target, max(busy, 1)) for tasks in lists)
        saved = spent - slowest - board_of(target.chip).task_seconds
        if busy < 2 or (saved < _SAVED_SECONDS and not everything):
            for step in group:
                step.shares.clear()
        else:
            gained += saved
    if gained < _SAVED_PART * sum(_seconds(step.tasks, target) for step in program.steps) and not everything:
        for step in program.steps:
            step.shares.clear()


def _groups(steps: list[Step]) -> Iterator[list[Step]]:
    """Shared steps between which cores do not meet."""
    group: list[Step] = []
    for step in steps:
        if group and not (_MOST_CORES in step.shares and step.follows):
            yield group
            group = []
        if _MOST_CORES in step.shares:
            group.append(step)
    if group:
        yield group


def _is_proven(step: Step) -> bool:
    """Whether files of the vendor's have such a step on several cores."""
    pools = any(isinstance(task.work, Pooling) for task in step.tasks)
    return step.table is None and step.type != "Resize" and not pools


def _saved(step: Step, cores: int, target: Target) -> float:
    """The task in which cores meet costs the start of a task."""
    slowest = max(_seconds(tasks, target, cores) for tasks in step.shares[cores])
    return _seconds(step.tasks, target) - slowest - board_of(target.chip).task_seconds


def _seconds(tasks: list[Task], target: Target, cores: int = 1) -> float:
    board = board_of(target.chip).shared_by(cores)
    return sum(spent_by(work_of_task(task, target, _COMMAND_BYTES), board).seconds for task in tasks)
