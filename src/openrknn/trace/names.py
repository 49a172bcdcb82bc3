"""Names for device addresses: from the vendor's log, or from the relocations of the model that ran.

The runtime's log (`RKNN_LOG_LEVEL=4`) lists each buffer and each tensor with its addresses. A model file lists, for
each tensor, the commands that hold its address: what stands in them in memory is where the runtime put the tensor.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from openrknn.container.model import Model
from openrknn.container.parts import Graph
from openrknn.fakekernel.space import on_bus
from openrknn.isa.words import value_of
from openrknn.trace.replay import LoadedJob, task_references

_BUFFER = re.compile(
    r"allocated memory, (?:name: (\S{1,200}), )?.{0,99}?dma addr: (0x[0-9a-f]{1,16}), .{0,99}?size: (\d{1,12})"
)
_GEM = re.compile(r"gem name: (\d+)")
_TENSOR = re.compile(r"\d+\s+\S+\s+(\S{1,400})\s.{0,400}\|\s*(0x[0-9a-f]{1,16})[ *](0x[0-9a-f]{1,16})\s")
_MOST_BYTES = 1 << 32


@dataclass
class Names:
    """Ranges of addresses with names."""

    ranges: list[tuple[int, int, str]] = field(default_factory=list)

    def add(self, start: int, size: int, name: str) -> None:
        if 0 < size <= _MOST_BYTES and (start, start + size, name) not in self.ranges:
            self.ranges.append((start, start + size, name))

    def at(self, address: int) -> str:
        """What begins at an address, or else the smallest range around it; empty if there is none."""
        around = [(start != address, end - start, name) for start, end, name in self.ranges if start <= address < end]
        return min(around, default=(False, 0, ""))[2]

    def inside(self, start: int, size: int) -> list[str]:
        """What begins in a buffer, in order; the buffer's own name comes first."""
        there = [entry for entry in self.ranges if start <= entry[0] < start + size]
        found = sorted((first, first - last, name) for first, last, name in there)
        return list(dict.fromkeys(name for _, _, name in found))


def names_from_log(text: str) -> Names:
    """What the vendor's runtime says itself."""
    names = Names()
    for line in text.splitlines():
        if found := _BUFFER.search(line):
            gem = _GEM.search(line)
            name = found[1] or (f"gem {gem[1]}" if gem else "buffer")
            names.add(int(found[2], 16), int(found[3]), name)
        elif found := _TENSOR.search(line):
            start = int(found[2], 16)
            names.add(start, int(found[3], 16) - start, found[1])
    return names


def names_from_model(model: Model, job: LoadedJob) -> Names:
    """Where the tensors of a model were when a job started; no names if the job is not of this model."""
    names = Names()
    for graph in model.graphs:
        commands = _commands_address(graph, job)
        if commands is None:
            continue
        sizes = {tensor.name: tensor.size_bytes for tensor in graph.tensors}
        for name, address in _located(graph, job, commands):
            names.add(on_bus(job.submit.base, address), sizes.get(name, 0), name)
        names.add(on_bus(job.submit.base, commands), graph.commands.nbytes, "commands")
    return names


def _commands_address(graph: Graph, job: LoadedJob) -> int | None:
    """The place of the commands, if all recorded tasks are tasks of the graph."""
    places: set[int] | None = None
    for core in job.submit.lists:
        for task in task_references(job.submit, core):
            same = [known for known in graph.tasks if known.amount == task.amount]
            offsets = {task.address - known.address for known in same}
            places = places & offsets if places is not None else offsets
    return next((place for place in sorted(places or ()) if _is_there(graph, job, place)), None)


def _is_there(graph: Graph, job: LoadedJob, commands: int) -> bool:
    """Whether the tasks of a job have the graph's commands, except for what a runtime fills in."""
    filled = {relocation.command for group in graph.relocations for relocation in group}
    patches = (*graph.convert_patches, *graph.image_patches)
    filled |= {slot.command for patch in patches for slot in patch.slots if slot is not None}
    for core in job.submit.lists:
        for task in task_references(job.submit, core):
            first, rest = divmod(task.address - commands, 8)
            file = np.asarray(graph.commands[first : first + task.amount])
            memory = job.memory.view(task.address, task.amount * 8, "commands").view(np.uint64)
            if rest or file.size != memory.size or {first + int(at) for at in np.nonzero(file != memory)[0]} - filled:
                return False
    return True


def _located(graph: Graph, job: LoadedJob, commands: int) -> Iterator[tuple[str, int]]:
    used = {
        index
        for core in job.submit.lists
        for task in task_references(job.submit, core)
        for index in range((task.address - commands) // 8, (task.address - commands) // 8 + task.amount)
    }
    for group in graph.relocations:
        for relocation in group:
            if relocation.command in used:
                view = job.memory.view(commands + 8 * relocation.command, 8, "a relocated command")
                word = int(view.view(np.uint64)[0])
                yield group.tensor, value_of(word) - relocation.addend
