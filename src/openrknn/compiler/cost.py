"""What a model costs on a board: of any file from its streams (`cost_of`), of a linked program without decoding it."""

from __future__ import annotations

from openrknn.compiler.link import Linked
from openrknn.compiler.program import Program, Task
from openrknn.compiler.targets import Target
from openrknn.cost import Cost, Kind, OperatorCost, Shape, Work, board_of, operator_cost, work_of
from openrknn.cost.tasks import convolution_shape, elementwise_shape, pooling_shape
from openrknn.isa import TAIL_WORDS, WORD_BYTES
from openrknn.runtime.cost import cost_of
from openrknn.task.formats import element_bytes
from openrknn.task.kinds import Convolution, Pooling

__all__ = ["Cost", "OperatorCost", "cost_of", "linked_costs", "shape_of", "work_of_task"]

_FIRST_LIST = {1: 0, 2: 1, 3: 3}


def linked_costs(program: Program, linked: Linked) -> dict[int, Cost]:
    """Number of cores -> the same numbers as `cost_of` finds in the written file."""
    # Files of RK3576 have lists for three cores as those of RK3588 do; the chip has two.
    counts = [count for count in _FIRST_LIST if count <= program.target.chip.cores]
    there = [count for count in counts if count == 1 or any(linked.lists[_FIRST_LIST[count] :][:1])]
    return {count: _cost(program, linked, count) for count in there}


def _cost(program: Program, linked: Linked, cores: int) -> Cost:
    first, chip = _FIRST_LIST[cores], program.target.chip
    found: dict[int, list[list[Work]]] = {}
    for core, entries in enumerate(linked.lists[first : first + cores]):
        for entry in entries:
            parts = found.setdefault(entry.step, [[] for _ in range(cores)])
            parts[core].append(work_of_task(entry.task, program.target, (entry.amount + TAIL_WORDS) * WORD_BYTES))
    operators = []
    submits, begins = 0, True
    for number, step in enumerate(program.steps):
        if step.is_cpu:
            begins = True
        elif number in found:
            loads = bool(linked.table_tasks.get(number))
            jobs = int(loads or begins or cores > 1)  # cores that share work get a job per operator ...
            if cores > 1 and program.is_joined:
                jobs = int(not submits)  # ... unless all of it is one
            submits += jobs
            begins = loads
            index = number + len(program.inputs)
            operators.append(operator_cost(index, step.type, step.name, found[number], chip, submits=jobs))
    return Cost(tuple(operators), submits, board_of(chip), sum(step.is_cpu for step in program.steps))


def work_of_task(task: Task, target: Target, command_bytes: int = 0) -> Work:
    """What one task gives the chip to do."""
    return work_of(shape_of(task)._replace(command_bytes=command_bytes), target.chip)


def shape_of(task: Task) -> Shape:
    """Of one task; loading a table costs its commands only."""
    work = task.work
    if task.table is not None:
        return Shape(Kind.TABLE_LOAD)
    if isinstance(work, Pooling):
        return pooling_shape(work.pooling)
    if isinstance(work, Convolution):
        return convolution_shape(work.source, work.dpu, work.reader)
    shape = elementwise_shape(work.dpu, work.reader)
    if work.dpu.reduction:  # one number for each pixel
        return shape._replace(written_bytes=element_bytes(work.dpu.out.precision) * shape.pixels)
    return shape
