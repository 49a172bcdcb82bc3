"""A model in the memory of a software NPU, without the runtime: for tests of the NPU alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import openrknn
from openrknn.container.link import Addresses, link, plan
from openrknn.container.patch import input_values
from openrknn.npu import Buffer, Machine, Memory, Program, TaskRef

WEIGHT, INTERNAL = 0x1000_0000, 0x4000_0000


@dataclass
class Loaded:
    """Memory, machine and task lists of one model."""

    model: openrknn.Model
    memory: Memory
    machine: Machine
    weight: Buffer
    internal: Buffer
    commands_address: int

    def tasks(self, cores: int = 1) -> list[list[TaskRef]]:
        """The task lists for this number of cores."""
        graph = self.model.graphs[0]
        return [
            [
                TaskRef(
                    number,
                    self.commands_address + graph.tasks[number].address,
                    graph.tasks[number].amount,
                    graph.tasks[number].op_index,
                )
                for number in numbers
            ]
            for entry, numbers in graph.task_lists.items()
            if entry.core_count == cores
        ]

    def program(self, cores: int = 1) -> Program:
        return self.machine.prepare(self.tasks(cores))

    def command(self, task: int, register: int) -> tuple[int, np.ndarray]:
        """Where a task writes a register: index and the command words of the task."""
        graph = self.model.graphs[0]
        start = self.commands_address - self.weight.address + graph.tasks[task].address
        words = self.weight.data[start : start + 8 * (graph.tasks[task].amount + 4)].view(np.uint64)
        index = next(number for number, word in enumerate(words.tolist()) if word & 0xFFFF == register)
        return index, words

    def set_register(self, task: int, register: int, value: int) -> None:
        """Change what a task writes into a register; streams write some twice."""
        _, words = self.command(task, register)
        chosen = words & np.uint64(0xFFFF) == register
        words[chosen] = words[chosen] & ~np.uint64(0xFFFFFFFF << 16) | np.uint64(value << 16)


def load(path: Path, *, strict: bool = True, seed: int = 0) -> Loaded:
    """Link a model and fill its internal memory with noise, so that no result can hide behind zeros."""
    model = openrknn.load(path)
    layout = plan(model)
    image = link(model, Addresses(WEIGHT, INTERNAL))
    graph = model.graphs[0]
    commands = image.commands(graph)
    for command, value in input_values(model, graph, {}):
        commands[command] = commands[command] & ~(0xFFFFFFFF << 16) | (value & 0xFFFFFFFF) << 16
    weight = Buffer(WEIGHT, np.frombuffer(image.weight, np.uint8), "weight", constant=True)
    noise = np.random.default_rng(seed).integers(0, 120, layout.internal_bytes, np.uint8)
    internal = Buffer(INTERNAL, noise, "internal")
    memory = Memory([weight, internal])
    return Loaded(
        model=model,
        memory=memory,
        machine=Machine(model.chip, memory, strict=strict),
        weight=weight,
        internal=internal,
        commands_address=WEIGHT + layout.weight_offsets[0]["regcmd"],
    )
