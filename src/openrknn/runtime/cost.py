"""What a model costs on a board, from its task streams: bytes that each operator moves, and cycles.

The streams are decoded as the software NPU decodes them, without memory behind them, and counted task by task (see
`openrknn.npu.traffic`); commands are fetched too. `Session.profile` and the compiler's report show these numbers.
Each core is taken to get its 16 bytes per cycle, whatever the others do: memory that is busy makes it slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from openrknn.container.model import Model
from openrknn.container.parts import Graph
from openrknn.npu import Buffer, Lenient, Machine, Memory, TaskRef
from openrknn.npu.traffic import BYTES_PER_CYCLE, Traffic, traffic_of
from openrknn.runtime.steps import Segment, core_lists, operators_to_run, split

__all__ = ["Cost", "OperatorCost", "cost_of", "operator_cost"]

_WORD_BYTES = 8
_TAIL = 4
_COMMANDS_AT = 0x1000


_NAMES = 3
"""Fields of an operator that are no amounts."""


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """One operator of the NPU; shared by cores, bytes are those of all, cycles those of the slowest."""

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

    @property
    def moved_bytes(self) -> int:
        return self.read_bytes + self.written_bytes + self.command_bytes

    def plus(self, other: OperatorCost) -> OperatorCost:
        """Both together under the first one's name."""
        numbers = [entry.name for entry in fields(self)][_NAMES:]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in numbers})


@dataclass(frozen=True, slots=True)
class Cost:
    """A whole model. Shared by cores: tasks and bytes of all of them, cycles of the slowest at each operator."""

    operators: tuple[OperatorCost, ...]
    submits: int
    """Jobs: runs of the NPU between which the CPU works, or a table is loaded without ping-pong."""

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


def operator_cost(index: int, kind: str, name: str, cores: Sequence[tuple[int, Traffic, int]]) -> OperatorCost:
    """From (tasks, their traffic, words of their commands) of each core."""
    total = Traffic()
    for _, traffic, _ in cores:
        total = total.plus(traffic)
    commands = [words * _WORD_BYTES for _, _, words in cores]
    fetches = [size // BYTES_PER_CYCLE for size in commands]
    return OperatorCost(
        index, kind, name, sum(count for count, _, _ in cores), total.read_bytes, total.written_bytes, sum(commands),
        total.macs,
        cycles=max(traffic.cycles + fetch for (_, traffic, _), fetch in zip(cores, fetches, strict=True)),
        array_cycles=max(traffic.array_cycles for _, traffic, _ in cores),
        memory_cycles=max(traffic.memory_cycles + fetch for (_, traffic, _), fetch in zip(cores, fetches, strict=True)),
    )  # fmt: skip


def cost_of(model: Model, cores: int = 1, graph: Graph | None = None) -> Cost:
    """Decode the streams of the lists for this number of cores and add up."""
    chosen = graph or model.graphs[0]
    operators = operators_to_run(model.operators_of(chosen))
    segments = split(chosen, operators, core_lists(chosen, model.chip, cores), singly=True)
    traffic = _decoded(model, chosen, segments)
    rows = []
    submits, begins = 0, True
    for segment in segments:
        if not segment.is_npu:
            begins = True
            continue
        operator = segment.operators[0]
        loads = bool(operator.node.lut_task_counts and operator.node.lut_task_counts[0])
        submits += loads or begins
        begins = loads
        parts = [
            (len(numbers), _sum(traffic[n] for n in numbers), sum(chosen.tasks[n].amount + _TAIL for n in numbers))
            for numbers in segment.lists
        ]
        rows.append(operator_cost(operator.index, operator.type, operator.name, parts))
    return Cost(tuple(rows), submits)


def _sum(parts: Iterable[Traffic]) -> Traffic:
    total = Traffic()
    for part in parts:
        total = total.plus(part)
    return total


def _decoded(model: Model, graph: Graph, segments: Iterable[Segment]) -> Mapping[int, Traffic]:
    """Task number -> what it moves."""
    words = np.frombuffer(graph.commands, np.uint8).copy()
    machine = Machine(model.chip, Memory([Buffer(_COMMANDS_AT, words, "commands")]), watcher=Lenient())
    found: dict[int, Traffic] = {}
    for segment in segments:
        lists = [[_reference(graph, number) for number in numbers] for numbers in segment.lists]
        for step in machine.prepare(lists).steps:
            part = traffic_of(step, model.chip.array_macs)
            found[step.task] = found[step.task].plus(part) if step.task in found else part
    return found


def _reference(graph: Graph, number: int) -> TaskRef:
    task = graph.tasks[number]
    return TaskRef(number, _COMMANDS_AT + task.first_command * _WORD_BYTES, task.amount, task.op_index)
