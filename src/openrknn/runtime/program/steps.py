"""A graph in execution order: runs of operators that the NPU does without the CPU, and operators of the CPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from openrknn.chips import Chip, TaskList
from openrknn.container.model import Operator
from openrknn.container.parts import Graph, Placement
from openrknn.errors import UnsupportedError
from openrknn.isa.words import WORD_BYTES, value_of
from openrknn.records import dataclass
from openrknn.runtime.program.rows import is_recurrent

_SEVERAL = 2
_BOUNDARY = {"InputOperator", "OutputOperator"}
"""Not run. Their tasks fill the ends of picture rows and convert layouts, which the CPU does while it copies; the
vendor's runtime 1.5.2 leaves out those of the inputs as well, and those of the outputs unless asked for another layout.
"""


@dataclass(frozen=True, slots=True)
class Segment:
    """Operators that run together: one job for the NPU, or one operator of the CPU."""

    operators: tuple[Operator, ...]
    lists: tuple[tuple[int, ...], ...]
    """NPU: for each core the numbers of its tasks; empty for the CPU."""

    @property
    def is_npu(self) -> bool:
        return bool(self.lists)


def operators_to_run(operators: Iterable[Operator]) -> tuple[Operator, ...]:
    """Without the ones at the boundary."""
    return tuple(operator for operator in operators if operator.type not in _BOUNDARY)


def core_lists(graph: Graph, chip: Chip, cores: int) -> tuple[range, ...]:
    """The task lists for this number of cores, one per core. A core that has nothing to do has no list in the file."""
    lists = tuple(graph.task_lists.get(TaskList(cores, core), range(0)) for core in range(cores))
    if graph.tasks and TaskList(cores, 0) not in graph.task_lists:
        there = sorted({entry.core_count for entry in graph.chip_lists(chip)})
        raise UnsupportedError(
            f"the model has no task list for {cores} cores, only for {', '.join(map(str, there))} "
            "(single_core_mode leaves one); choose one of these with cores="
        )
    return lists


def is_joined(graph: Graph, lists: Sequence[range]) -> bool:
    """Whether the lists of several cores are one job: all have tasks, and each task leads to the next one."""
    if len(lists) < _SEVERAL or not all(lists):
        return False
    tasks, words = graph.tasks, graph.commands
    for numbers in lists:
        for number, following in pairwise(numbers):
            tail = words[tasks[number].first_command + tasks[number].amount]
            if value_of(tail) != tasks[following].first_command * WORD_BYTES:
                return False
    return True


def split(graph: Graph, operators: Sequence[Operator], lists: Sequence[range], *, singly: bool) -> tuple[Segment, ...]:
    """Consecutive NPU operators become one segment, or with `singly` one segment each.

    With several cores each operator is a segment, as it is a job in the vendor's runtime: one that core 0 does alone
    has the streams of the one-core list, whose links lead on in that list, and no other core waits for it. So is a
    recurrent one: the CPU has to copy before and after it. Joined lists are one segment.
    """
    apart = len(lists) > 1 and not is_joined(graph, lists)
    tasks: list[dict[int, list[int]]] = [{} for _ in lists]
    for core, numbers in enumerate(lists):
        for number in numbers:
            tasks[core].setdefault(graph.tasks[number].op_index, []).append(number)
    segments: list[Segment] = []
    waiting: list[Operator] = []

    def finish() -> None:
        # An operator without tasks (a concatenation by address, say) is done by its neighbours.
        numbers = tuple(tuple(n for operator in waiting for n in core.get(operator.index, ())) for core in tasks)
        if any(numbers):
            segments.append(Segment(tuple(waiting), numbers))
        waiting.clear()

    for operator in operators:
        if operator.placement is Placement.NPU:
            alone = singly or apart or is_recurrent(operator)
            if alone:
                finish()
            waiting.append(operator)
            if alone:
                finish()
        else:
            finish()
            segments.append(Segment((operator,), ()))
    finish()
    return tuple(segments)
