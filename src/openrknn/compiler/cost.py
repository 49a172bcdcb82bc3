"""What a model costs on a board: of any file from its streams (`cost_of`), of a linked program without decoding it."""

from __future__ import annotations

from openrknn.compiler.link import Linked
from openrknn.compiler.program import Program
from openrknn.compiler.traffic import traffic_of
from openrknn.npu.traffic import Traffic
from openrknn.runtime.cost import Cost, OperatorCost, cost_of, operator_cost

__all__ = ["Cost", "OperatorCost", "cost_of", "linked_costs"]

_TAIL = 4
_FIRST_LIST = {1: 0, 2: 1, 3: 3}


def linked_costs(program: Program, linked: Linked) -> dict[int, Cost]:
    """Number of cores -> the same numbers as `cost_of` finds in the written file."""
    return {cores: _cost(program, linked, cores) for cores in _FIRST_LIST if _FIRST_LIST[cores] < len(linked.lists)}


def _cost(program: Program, linked: Linked, cores: int) -> Cost:
    first = _FIRST_LIST[cores]
    found: dict[int, list[tuple[int, Traffic, int]]] = {}
    for core, entries in enumerate(linked.lists[first : first + cores]):
        for entry in entries:
            rows = found.setdefault(entry.step, [(0, Traffic(), 0)] * cores)
            count, traffic, words = rows[core]
            rows[core] = count + 1, traffic.plus(traffic_of(entry.task, program.target)), words + entry.amount + _TAIL
    operators = []
    submits, begins = 0, True
    for number, step in enumerate(program.steps):
        if step.is_cpu:
            begins = True
        elif number in found:
            loads = bool(linked.table_tasks.get(number))
            submits += loads or begins
            begins = loads
            operators.append(operator_cost(number + len(program.inputs), step.type, step.name, found[number]))
    return Cost(tuple(operators), submits)
