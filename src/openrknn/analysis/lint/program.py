"""The tasks of a graph, decoded at addresses of their own, and the tensors that lie there.

Constants lie apart from each other, with gaps between them, so that a read that leaves its tensor is seen; inputs and
outputs have buffers of their own, as in a session, and internal memory has the layout of the file. Nothing is run.
What the software NPU cannot decode is left out and counted: lint speaks of what it understands.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from openrknn.chip.limits import Banks, unproven
from openrknn.chip.watch import Watcher
from openrknn.chips import Chip
from openrknn.container.model import Model, Operator
from openrknn.container.parts import Graph, Kind, Tensor
from openrknn.container.patch import input_values
from openrknn.container.sizes import internal_bytes
from openrknn.errors import (
    HardwareLimitError,
    RknnError,
    UndeclaredBitsError,
    UnreadRegisterError,
    UnsupportedError,
)
from openrknn.isa import WORD_BYTES
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.npu.task import Step
from openrknn.runtime.program.relocate import addresses_of, write_commands, write_values
from openrknn.runtime.program.steps import Segment, core_lists, operators_to_run, split
from openrknn.task import cna

_FIRST_ADDRESS = 0x10000
_GAP = 0x10000
"""Between two regions: more than the longest harmless read past an end, one burst of the bus."""
_ALIGNMENT = 0x1000
_SPACE = 1 << 32
_STORED = {Kind.WEIGHT, Kind.CPU_CONSTANT, Kind.COMPILER_CONSTANT, Kind.REGISTER_LIST}


class Region(NamedTuple):
    """Memory that belongs together: one constant, one input or output, or all internal memory."""

    address: int
    size_bytes: int
    tensor: Tensor | None
    """None: internal memory."""

    @property
    def end(self) -> int:
        return self.address + self.size_bytes


_NOWHERE = Region(0, 0, None)


class Work(NamedTuple):
    """One operator in execution order and what its tasks do; no steps: it runs on the CPU."""

    operator: Operator
    steps: tuple[Step, ...]
    on_npu: bool


@dataclass
class Decoded:
    """What the rules look at."""

    model: Model
    graph: Graph
    operators: tuple[Operator, ...]
    works: list[Work] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    internal: Region = _NOWHERE
    places: Mapping[str, int] = field(default_factory=dict)
    """Tensor -> address."""
    refused: list[str] = field(default_factory=list)
    """Why tasks could not be decoded."""
    refused_tasks: set[int] = field(default_factory=set)
    """Their numbers, and those of the tasks that were decoded with them."""
    memory: Memory = field(default_factory=Memory)
    limits: Mapping[int, str] = field(default_factory=dict)
    """Task -> the limit of the hardware that it breaks."""
    unproven: Mapping[int, str] = field(default_factory=dict)
    """Task -> what it does that no board is known to have done."""

    def region_at(self, address: int) -> Region | None:
        """The region that holds an address, or the last one before it."""
        place = bisect_right(self.regions, address, key=lambda region: region.address) - 1
        return self.regions[place] if place >= 0 else None

    def tensor_at(self, address: int, among: tuple[Tensor, ...]) -> Tensor | None:
        """The tensor of an operator that contains an address; if several do, the one that begins last."""
        found = [
            tensor
            for tensor in among
            if tensor.name in self.places and 0 <= address - self.places[tensor.name] < max(tensor.size_bytes, 1)
        ]
        return max(found, key=lambda tensor: self.places[tensor.name], default=None)


class _Tolerant(Watcher):
    """Notes what cannot be decoded and goes on."""

    def __init__(self, chip: Chip) -> None:
        self.refused: list[str] = []
        self.tasks: set[int] = set()
        self.limits: dict[int, str] = {}
        self.unproven: dict[int, str] = {}
        self._chip = chip

    def fetched(self, source: cna.Config, banks: Banks, task: TaskRef) -> None:
        text = unproven(self._chip, source, banks)
        if text is not None:
            self.unproven[task.number] = text

    def failed(self, error: RknnError, task: TaskRef) -> bool:
        if isinstance(error, HardwareLimitError):
            self.limits[task.number] = error.message
        elif not isinstance(error, UndeclaredBitsError | UnreadRegisterError):
            self.refused.append(f"task {task.number}: {error}")
            self.tasks.add(task.number)
        return True


def decode(model: Model, graph: Graph | None = None) -> Decoded:
    """Place and decode one graph (the first, if none is given), as one core runs it."""
    chosen = graph or model.graphs[0]
    decoded = Decoded(model, chosen, operators_to_run(model.operators_of(chosen)))
    commands, tensors = _regions(decoded)
    words = np.zeros(len(chosen.commands), np.uint64)
    located = addresses_of(
        chosen, commands=commands, weights=0, weight_offsets=tensors, internal=decoded.internal.address, tensors=tensors
    )
    decoded.places = {**located, **tensors}
    write_commands(chosen, words, commands, decoded.places)
    fed = {chosen.tensors[index].name: False for index in chosen.inputs}
    write_values(words, dict(input_values(model, chosen, fed)))
    decoded.memory.add(Buffer(commands, words.view(np.uint8), "commands"))
    watcher = _Tolerant(model.chip)
    machine = Machine(model.chip, decoded.memory, strict=False, watcher=watcher)
    segments = split(chosen, decoded.operators, core_lists(chosen, model.chip, 1), singly=True)
    decoded.works = [_work(segment, machine, chosen, commands, watcher) for segment in segments]
    decoded.refused, decoded.refused_tasks = watcher.refused, watcher.tasks
    decoded.limits, decoded.unproven = watcher.limits, watcher.unproven
    return decoded


def _regions(decoded: Decoded) -> tuple[int, dict[str, int]]:
    """Fill `regions` and memory; where the commands go, and the addresses of constants, inputs and outputs."""
    graph, shared = decoded.graph, decoded.model.graphs[0]
    at = _FIRST_ADDRESS

    def reserve(size: int, tensor: Tensor | None) -> Region:
        nonlocal at
        region = Region(at, size, tensor)
        at += -(-(size + _GAP) // _ALIGNMENT) * _ALIGNMENT
        if at > _SPACE:
            raise UnsupportedError("the model is larger than the NPU's address space")
        decoded.regions.append(region)
        return region

    commands = reserve(len(graph.commands) * WORD_BYTES, None).address
    decoded.internal = reserve(internal_bytes(graph), None)
    tensors: dict[str, int] = {}
    ends = {*graph.inputs, *graph.outputs}
    for tensor in graph.tensors:
        data = tensor.data
        if data is not None and not data:
            same = shared.tensor_named(tensor.name)
            data = same.data if same is not None else None
        if tensor.kind in _STORED and data:
            region = reserve(len(data), tensor)
            decoded.memory.add(Buffer(region.address, np.frombuffer(data, np.uint8), tensor.name))
            tensors[tensor.name] = region.address
        elif tensor.index in ends and tensor.name not in tensors:
            tensors[tensor.name] = reserve(tensor.size_bytes, tensor).address
    return commands, tensors


def _work(segment: Segment, machine: Machine, graph: Graph, commands: int, watcher: _Tolerant) -> Work:
    operator = segment.operators[0]
    if not segment.is_npu:
        return Work(operator, (), on_npu=False)
    lists = [
        [
            TaskRef(
                number,
                commands + graph.tasks[number].first_command * WORD_BYTES,
                graph.tasks[number].amount,
                graph.tasks[number].op_index,
            )
            for number in numbers
        ]
        for numbers in segment.lists
    ]
    try:
        return Work(operator, tuple(machine.prepare(lists).steps), on_npu=True)
    except (RknnError, ValueError) as error:  # a code that no enumeration has is a ValueError
        watcher.refused.append(f"operator {operator.index}: {error}")
        watcher.tasks.update(task.number for tasks in lists for task in tasks)
        return Work(operator, (), on_npu=True)
