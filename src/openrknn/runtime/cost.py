"""What a model costs on a board, from the task streams in its file: see `openrknn.cost`."""

from __future__ import annotations

from collections.abc import Mapping

from openrknn.container.model import Model
from openrknn.container.parts import Graph
from openrknn.cost import Cost, OperatorCost, Work, board_of, operator_cost
from openrknn.cost.decoded import decoded_work
from openrknn.isa import WORD_BYTES
from openrknn.npu import TaskRef
from openrknn.runtime.program.steps import Segment, core_lists, is_joined, operators_to_run, split

__all__ = ["Cost", "OperatorCost", "cost_of", "task_works"]


def cost_of(model: Model, cores: int = 1, graph: Graph | None = None, works: Mapping[int, Work] | None = None) -> Cost:
    """Decode the streams of the lists for this number of cores and add up; `works`: of tasks that are decoded."""
    chosen = graph or model.graphs[0]
    segments = _segments(model, chosen, cores)
    joined = is_joined(chosen, core_lists(chosen, model.chip, cores))
    if works is None:
        works = _decoded(model, chosen, segments)
    rows = []
    submits, begins, unknown, on_cpu = 0, True, 0, 0
    for segment in segments:
        if not segment.is_npu:
            begins = True
            on_cpu += 1
            continue
        operator = segment.operators[0]
        loads = bool(operator.node.lut_task_counts and operator.node.lut_task_counts[0])
        jobs = int(loads or begins or cores > 1)  # cores that share work get a job per operator ...
        if joined:
            jobs = int(not submits)  # ... unless all of it is one
        submits += jobs
        begins = loads
        if any(number not in works for numbers in segment.lists for number in numbers):
            unknown += 1
            continue
        parts = [[works[number] for number in numbers] for numbers in segment.lists]
        rows.append(operator_cost(operator.index, operator.type, operator.name, parts, model.chip, submits=jobs))
    return Cost(tuple(rows), submits, board_of(model.chip), on_cpu, unknown)


def task_works(model: Model, graph: Graph | None = None) -> Mapping[int, Work]:
    """Task number -> its work, of the list for one core."""
    chosen = graph or model.graphs[0]
    return _decoded(model, chosen, _segments(model, chosen, 1))


def _segments(model: Model, graph: Graph, cores: int) -> tuple[Segment, ...]:
    operators = operators_to_run(model.operators_of(graph))
    return split(graph, operators, core_lists(graph, model.chip, cores), singly=True)


def _decoded(model: Model, graph: Graph, segments: tuple[Segment, ...]) -> Mapping[int, Work]:
    runs = [[[_reference(graph, number) for number in numbers] for numbers in segment.lists] for segment in segments]
    return decoded_work(graph.commands, model.chip, runs)


def _reference(graph: Graph, number: int) -> TaskRef:
    task = graph.tasks[number]
    return TaskRef(number, task.first_command * WORD_BYTES, task.amount, task.op_index)
