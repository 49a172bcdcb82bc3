"""Register commands, task by task: which fields differ, in natural values.

Tasks are paired by operator and position. An address is compared by the tensor that it belongs to and the offset in
it, because the numbers behind it are the loader's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from openrknn.analysis.differences.difference import Difference, Section
from openrknn.analysis.explain import list_label
from openrknn.chip.maps import map_for
from openrknn.chips import TaskList
from openrknn.container.model import Model
from openrknn.container.parts import Graph, Task
from openrknn.isa import RegisterMap, disassemble
from openrknn.isa.words import TAIL_WORDS, place_of, tail_of, value_of


class _Address(NamedTuple):
    tensor: str
    addend: int

    def __str__(self) -> str:
        return f"{self.tensor} + {self.addend:#x}" if self.addend else self.tensor


def compare_commands(first: Model, one: Graph, second: Model, other: Graph) -> Iterator[Difference]:
    """Differences of the commands; in full for the list of one core, as a count for the other lists."""
    if first.chip.family != second.chip.family:
        words = f"not compared: {first.chip.title} and {second.chip.title} have different registers"
        yield Difference(Section.COMMANDS, "", "register map", first.chip.family, second.chip.family, words)
        return
    before, after = _Stream(one), _Stream(other)
    if before.equals(after):
        return
    register_map = map_for(first.chip)
    for number, entry in enumerate(first.chip.task_lists):
        pairs = list(_pairs(one, other, entry))
        changed = [pair for pair in pairs if before.body(pair[0]) != after.body(pair[1])]
        if number == 0:
            for old, new in changed:
                yield from _task(before, old, after, new, register_map)
        elif changed:
            words = f"{len(changed)} of {len(pairs)} tasks differ"
            subject = f"task list {list_label(entry)}"
            yield Difference(Section.COMMANDS, subject, "tasks", len(pairs), len(changed), words)


def _pairs(one: Graph, other: Graph, entry: TaskList) -> Iterator[tuple[Task, Task]]:
    """Tasks of the same operator (by name) at the same position; the number of tasks is reported with the operators."""
    ones, others = _by_operator(one, entry), _by_operator(other, entry)
    for name, tasks in ones.items():
        yield from zip(tasks, others.get(name, ()), strict=False)


def _by_operator(graph: Graph, entry: TaskList) -> dict[str, list[Task]]:
    found: dict[str, list[Task]] = {}
    for number in graph.task_lists.get(entry, range(0)):
        task = graph.tasks[number]
        node = graph.nodes[task.op_index]
        found.setdefault(node.name or f"({node.type})", []).append(task)
    return found


class _Stream:
    """The commands of one graph, with addresses by name."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.addresses = {
            command: _Address(group.tensor, addend)
            for group in graph.relocations
            for addend, command in struct.iter_unpack("<iI", group.entries)
        }
        self._numbers = {id(task): number for number, task in enumerate(graph.tasks)}

    def equals(self, other: _Stream) -> bool:
        return (
            self.graph.commands == other.graph.commands
            and self.graph.tasks == other.graph.tasks
            and self.addresses == other.addresses
        )

    def title(self, task: Task) -> str:
        node = self.graph.nodes[task.op_index]
        return f"task {self._numbers[id(task)]} ({node.name or node.type})"

    def body(self, task: Task) -> list[int | tuple[int, _Address]]:
        """The words of a task, addresses replaced, and the barrier of its link."""
        first = task.first_command
        words: list[int | tuple[int, _Address]] = list(self.graph.task_words(task, tail=False))
        for position in range(len(words)):
            address = self.addresses.get(first + position)
            word = words[position]
            if address is not None and isinstance(word, int):
                words[position] = (place_of(word), address)
        tail = self.graph.task_words(task)[task.amount :]
        barriers = [tail_of(tail).barrier] if len(tail) == TAIL_WORDS else []
        return [*words, *barriers, task.enable_mask, task.int_mask]

    def writes(self, task: Task) -> dict[int, list[int | _Address]]:
        """Target and register -> what is written there, in order."""
        found: dict[int, list[int | _Address]] = {}
        for number, word in enumerate(self.graph.task_words(task, tail=False), start=task.first_command):
            found.setdefault(place_of(word), []).append(self.addresses.get(number, word))
        return found


def _task(before: _Stream, old: Task, after: _Stream, new: Task, register_map: RegisterMap) -> Iterator[Difference]:
    subject = before.title(old)
    for what in ("enable_mask", "int_mask"):
        if getattr(old, what) != getattr(new, what):
            values = f"{getattr(old, what):#x}", f"{getattr(new, what):#x}"
            yield Difference(Section.COMMANDS, subject, what, *values)
    if before.body(old)[-3] != after.body(new)[-3]:
        yield Difference(Section.COMMANDS, subject, "barrier", words="the cores meet at another place")
    ones, others = before.writes(old), after.writes(new)
    for place in (*ones, *(place for place in others if place not in ones)):
        name = disassemble((place,), register_map)[0].name
        yield from _register(subject, name, ones.get(place, []), others.get(place, []), register_map)


def _register(
    subject: str, name: str, before: list[int | _Address], after: list[int | _Address], register_map: RegisterMap
) -> Iterator[Difference]:
    if before == after:
        return
    if len(before) > 2 or len(after) > 2:
        changed = sum(one != other for one, other in zip(before, after, strict=False))
        changed += abs(len(before) - len(after))
        words = f"{name}: {changed} of {max(len(before), len(after))} writes differ"
        yield Difference(Section.COMMANDS, subject, name, len(before), len(after), words)
        return
    one, other = before[-1] if before else None, after[-1] if after else None
    if one == other:
        yield Difference(Section.COMMANDS, subject, name, len(before), len(after), f"{name} is written more than once")
    elif isinstance(one, int) and isinstance(other, int):
        yield from _fields(subject, one, other, register_map)
    else:
        yield Difference(Section.COMMANDS, subject, name, _text(one), _text(other))


def _fields(subject: str, before: int, after: int, register_map: RegisterMap) -> Iterator[Difference]:
    old, new = disassemble((before, after), register_map)
    if old.register is None:
        values = f"{value_of(before):#x}", f"{value_of(after):#x}"
        yield Difference(Section.COMMANDS, subject, old.name, *values)
        return
    for name in old.values:
        if old.values[name] != new.values[name]:
            field = old.register.field(name)
            values = field.format(old.values[name]), field.format(new.values[name])
            yield Difference(Section.COMMANDS, subject, f"{old.name} {name}", *values)
    if old.undeclared != new.undeclared:
        values = f"{old.undeclared:#x}", f"{new.undeclared:#x}"
        yield Difference(Section.COMMANDS, subject, f"{old.name} undeclared bits", *values)


def _text(value: int | _Address | None) -> str:
    if value is None:
        return "(not written)"
    return str(value) if isinstance(value, _Address) else f"{value_of(value):#x}"
