"""Where the values of a `.rknn` are in its bytes: what `mutate` may change without breaking the container around it.

The reader itself says where it looks: its methods are watched while it loads the file once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from openrknn.chips import Chip
from openrknn.container.flatbuffer import Table
from openrknn.container.load import load
from openrknn.container.parts import TASK, Graph, Kind

__all__ = ["Anatomy", "Number", "TaskWords", "dissect"]

_TASK_FORMATS = "IIIIIIIIQ"
_MAX_ELEMENTS = 64
"""Of one vector: the rest is more of the same."""
_MIN_DATA = 16


@dataclass(frozen=True, slots=True)
class Number:
    """A number at `offset`, in the letter of `struct`."""

    offset: int
    format: str


@dataclass(frozen=True, slots=True)
class TaskWords:
    """The commands of one task: `count` words at `offset`, of which the last four are its tail."""

    offset: int
    count: int


@dataclass(slots=True)
class Anatomy:
    """The places of one file."""

    chip: Chip
    cores: int
    numbers: list[Number] = field(default_factory=list)
    """Of tensors, operators and graphs: types, shapes, scales, zero points, sizes, attributes."""
    relocations: list[int] = field(default_factory=list)
    """Offsets of (addend, command) pairs."""
    tasks: list[int] = field(default_factory=list)
    """Offsets of task records."""
    words: list[TaskWords] = field(default_factory=list)
    data: list[tuple[int, int]] = field(default_factory=list)
    """(offset, size) of constants."""


def dissect(data: bytes) -> Anatomy:
    """The places of a file that can be loaded."""
    numbers: list[Number] = []
    relocations: list[int] = []
    with _watched(numbers, relocations):
        model = load(data, strict=False)
    start = _address(memoryview(data))

    def place(view: memoryview) -> int | None:
        offset = _address(view) - start if len(view) else -1
        return offset if 0 <= offset < len(data) else None

    found = Anatomy(model.chip, model.chip.cores, numbers, relocations)
    for graph in model.graphs:
        _graph(graph, found, place)
    return found


def _graph(graph: Graph, found: Anatomy, place: Callable[[memoryview], int | None]) -> None:
    commands = place(graph.commands)
    for task in graph.tasks:
        if commands is None:
            break
        count = min(task.amount + 4, len(graph.commands) - task.first_command)
        if task.first_command >= 0 and count > 4:
            found.words.append(TaskWords(commands + 8 * task.first_command, count))
    for tensor in graph.tensors:
        offset = None if tensor.data is None else place(tensor.data)
        if offset is None or tensor.data is None:
            continue
        if tensor.kind is Kind.TASKS:
            found.tasks.extend(range(offset, offset + len(tensor.data) // TASK.size * TASK.size, TASK.size))
        elif tensor.kind is not Kind.COMMANDS and len(tensor.data) >= _MIN_DATA:
            found.data.append((offset, len(tensor.data)))


def _address(view: memoryview) -> int:
    return int(np.frombuffer(view, np.uint8).ctypes.data)


@contextmanager
def _watched(numbers: list[Number], relocations: list[int]) -> Iterator[None]:
    def scalar(name: str, letter: str, size: int) -> Callable[..., Any]:
        original = getattr(Table, name)

        def read(table: Table, slot: int) -> Any:
            position = table._at(slot, size)
            if position is not None:
                numbers.append(Number(table.buffer.file_offset + position, letter))
            return original(table, slot)

        return read

    def vector(name: str, letter: str, size: int) -> Callable[..., Any]:
        original = getattr(Table, name)

        def read(table: Table, slot: int, *rest: Any, **options: Any) -> Any:
            view = original(table, slot, *rest, **options)
            position = None if options.get("wide") else table._target(slot)
            if position is None:
                return view
            first = table.buffer.file_offset + position + 4
            if name == "structs":
                relocations.extend(range(first, first + len(view), 8))
            else:
                count = min(view.nbytes // size, _MAX_ELEMENTS)
                numbers.extend(Number(first + number * size, letter) for number in range(count))
            return view

        return read

    def short(table: Table, slot: int, code: str, limit: int, cost: int) -> Any:
        found = all_of_it(table, slot, code, limit, cost)
        position = table._target(slot)
        if found and position is not None:
            first = table.buffer.file_offset + position + 4
            numbers.extend(Number(first + number * 4, code) for number in range(min(len(found), _MAX_ELEMENTS)))
        return found

    all_of_it = Table.short
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Table, "short", short))
        for name, letter, size in (("u8", "B", 1), ("i32", "i", 4), ("u32", "I", 4), ("f32", "f", 4), ("pair", "I", 8)):
            patches.enter_context(mock.patch.object(Table, name, scalar(name, letter, size)))
        for name, letter, size in (("i32s", "i", 4), ("f32s", "f", 4), ("structs", "i", 4), ("u8s", "I", 4)):
            patches.enter_context(mock.patch.object(Table, name, vector(name, letter, size)))
        yield
