"""Models of every chip in the memory of a software NPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

import openrknn
from openrknn.container.link import Addresses, link, plan
from openrknn.container.outer import Flavour
from openrknn.container.parts import Graph, Kind, Tensor
from openrknn.npu import Buffer, Machine, Memory, Program, TaskRef

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests/goldens"
CHIPS = ("rk3566", "rk3562", "rk3576", "rv1126b", "rv1103", "rv1106", "rv1103b", "rv1106b")

WEIGHT, INTERNAL = 0x1000_0000, 0x4000_0000
ROOM = 1 << 20
"""Beyond internal memory: float outputs are longer than what the compiler planned for the tensor."""


@dataclass
class Placed:
    """A model in memory. Its activations are noise, so that no result can hide behind zeros."""

    model: openrknn.Model
    memory: Memory
    machine: Machine
    commands: int
    internal: int

    @property
    def graph(self) -> Graph:
        return self.model.graphs[0]

    def program(self, cores: int = 1, core: int = 0) -> Program:
        """The tasks of the lists for so many cores; of one list where a list is for one core."""
        chosen = [
            numbers
            for entry, numbers in self.graph.task_lists.items()
            if entry.core_count == cores and (cores > 1 or entry.core == core)
        ]
        return self.machine.prepare([[self._task(number) for number in numbers] for numbers in chosen])

    def _task(self, number: int) -> TaskRef:
        task = self.graph.tasks[number]
        return TaskRef(number, self.commands + task.address, task.amount, task.op_index)

    def bytes_of(self, tensor: Tensor, size: int) -> npt.NDArray[np.uint8]:
        """The memory where an activation starts."""
        return self.memory.view(self.internal + tensor.offset, size, tensor.name)


def place(path: Path, seed: int = 0) -> Placed:
    """Link a model, whatever its container."""
    model = openrknn.load(path)
    noise = np.random.default_rng(seed).integers(0, 120, model.memory.internal_bytes + ROOM, np.uint8)
    if model.flavour is Flavour.MINI:
        weight, commands, internal = _mini_image(model), 0, 0
        internal = weight.size
        memory = Memory([Buffer(0, np.concatenate([weight, noise]), "image")])
    else:
        image = link(model, Addresses(WEIGHT, INTERNAL))
        commands, internal = WEIGHT + plan(model).weight_offsets[0]["regcmd"], INTERNAL
        weight = np.frombuffer(image.weight, np.uint8)
        memory = Memory([Buffer(WEIGHT, weight, "weight", constant=True), Buffer(INTERNAL, noise, "internal")])
    return Placed(model, memory, Machine(model.chip, memory), commands, internal)


def _mini_image(model: openrknn.Model) -> npt.NDArray[np.uint8]:
    """Commands, compiler constants, weights: linked for base 0 already."""
    graph, sizes = model.graphs[0], model.memory
    commands = len(graph.commands) * 8
    image = np.zeros(commands + sizes.constant_bytes + sizes.weight_bytes, np.uint8)
    image[:commands] = np.frombuffer(bytes(graph.commands), np.uint8)
    for tensor in graph.tensors:
        start = commands + (0 if tensor.kind is Kind.COMPILER_CONSTANT else sizes.constant_bytes) + tensor.offset
        if tensor.data is not None and tensor.kind not in {Kind.COMMANDS, Kind.TASKS}:
            image[start : start + len(tensor.data)] = np.frombuffer(tensor.data, np.uint8)
    return image
