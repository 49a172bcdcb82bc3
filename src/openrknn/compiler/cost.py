"""What a model costs on a board: of any file from its streams (`cost_of`), of a linked program without decoding it."""

from __future__ import annotations

from openrknn.compiler.link import Linked
from openrknn.compiler.program import Program
from openrknn.compiler.traffic import work_of_task
from openrknn.cost import Cost, OperatorCost, Work, board_of, operator_cost
from openrknn.cost.decoded import WORD_BYTES
from openrknn.isa import TAIL_WORDS
from openrknn.runtime.cost import cost_of

__all__ = ["Cost", "OperatorCost", "cost_of", "linked_costs"]

_FIRST_LIST = {1: 0, 2: 1, 3: 3}


def linked_costs(program: Program, linked: Linked) -> dict[int, Cost]:
    """Number of cores -> the same numbers as `cost_of` finds in the written file."""
    return {cores: _cost(program, linked, cores) for cores in _FIRST_LIST if _FIRST_LIST[cores] < len(linked.lists)}


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
            jobs = int(loads or begins or cores > 1)  # cores that share work get a job per operator
            submits += jobs
            begins = loads
            index = number + len(program.inputs)
            operators.append(operator_cost(index, step.type, step.name, found[number], chip, submits=jobs))
    return Cost(tuple(operators), submits, board_of(chip), sum(step.is_cpu for step in program.steps))
