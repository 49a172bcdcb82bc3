"""Decodes the command streams of one model on a lenient software NPU that notes what every block looks at.

Strict mode sees registers that nobody reads. This sees more: single fields of a register that is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from openrknn.chips import TaskList
from openrknn.container.link import Addresses, Image, link, plan
from openrknn.container.model import Model
from openrknn.container.parts import Graph
from openrknn.container.patch import input_values
from openrknn.errors import ExecutionError, RknnError, UnreadRegisterError, UnsupportedError
from openrknn.isa import Block, IsaError, Register, RegisterMap, map_for
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.npu.machine import Core
from openrknn.npu.registers import Registers
from openrknn.npu.step import Step, TableLoad

__all__ = ["Log", "Problem", "Scan", "scan"]

R = TypeVar("R", bound=Register)

_WEIGHT, _INTERNAL = 0x1000_0000, 0x8000_0000
# Registers that the machine itself follows while it decodes, with the fields that it looks at.
_FOLLOWED = {
    "S_POINTER": ("pointer", "pointer_pp_en", "pointer_pp_clear"),
    "LUT_ACCESS_CFG": ("lut_addr", "lut_table_id", "lut_access_type"),
    "LUT_ACCESS_DATA": ("lut_access_data",),
}
_NOWHERE = Block("?", None, 0, ())
_VALUE_SHIFT, _VALUE_MASK = 16, 0xFFFF_FFFF << 16


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a model that the software NPU does not implement."""

    path: str
    graph: int | None
    task: int | None
    operator: str
    """Index, type and name; empty where it concerns the whole file."""
    register: str
    text: str

    @property
    def place(self) -> str:
        """Where it is, for people."""
        parts = [self.path]
        if self.task is not None:
            parts.append(f"task {self.task}" + (f" of graph {self.graph}" if self.graph else ""))
        return ", ".join([*parts, *filter(None, (f"operator {self.operator}" if self.operator else "", self.register))])


@dataclass
class Log:
    """What the blocks did with registers."""

    read: set[type[Register]] = field(default_factory=set)
    waived: set[type[Register]] = field(default_factory=set)
    """Known to have no effect on results."""
    zero: set[type[Register]] = field(default_factory=set)
    """Anything but 0 would be refused."""
    fields: set[tuple[type[Register], str]] = field(default_factory=set)


@dataclass
class Scan:
    """What one model uses."""

    path: str
    model: Model
    register_map: RegisterMap
    tasks: int = 0
    commands: int = 0
    writes: Counter[tuple[int, int, int]] = field(default_factory=Counter)
    """(target, offset, value) -> how many tasks write it."""
    log: Log = field(default_factory=Log)
    problems: list[Problem] = field(default_factory=list)
    is_decoded: bool = False
    """Whether the software NPU has this chip."""


class _Watched(Registers):
    """Registers that note every look at them."""

    def __init__(self, inner: Registers, log: Log) -> None:
        super().__init__(inner._values)
        self._read = inner._read
        self._log = log

    def read(self, register: type[R]) -> R:
        self._log.read.add(register)
        value = super().read(register)
        if register not in _WATCHING:
            _WATCHING[register] = _watching(register)
        watched = _WATCHING[register](value.value)
        object.__setattr__(watched, "log", self._log)
        return watched  # type: ignore[return-value]

    def waive(self, *registers: type[Register]) -> None:
        self._log.waived.update(registers)
        super().waive(*registers)

    def expect_zero(self, *registers: type[Register]) -> None:
        self._log.zero.update(registers)
        super().expect_zero(*registers)


_WATCHING: dict[type[Register], type[Register]] = {}


def _watching(register: type[Register]) -> type[Register]:
    """The same register, with a note of each field that is asked for."""
    names = frozenset(item.name for item in register.fields())

    def get(self: Register, name: str) -> object:
        # `.values()` hands out all fields at once: who asks for it is taken to look at each.
        if name in names or name == "values":
            looked_at = names if name == "values" else (name,)
            object.__getattribute__(self, "log").fields.update((register, item) for item in looked_at)
        return object.__getattribute__(self, name)

    return type(register.__name__, (register,), {"__slots__": ("log",), "__getattribute__": get})


class _Observer(Machine):
    """An NPU that decodes, notes, and goes on after an error."""

    def __init__(self, found: Scan, graph: Graph, memory: Memory) -> None:
        super().__init__(found.model.chip, memory, strict=False)
        self._found = found
        self._graph = graph
        self._failed: TaskRef | None = None

    def _configure(
        self, names: set[str], registers: Registers, working: Core, task: TaskRef, *, loads_table: bool
    ) -> Step:
        try:
            watched = _Watched(registers, self._found.log)
            return super()._configure(names, watched, working, task, loads_table=loads_table)
        except (ExecutionError, IsaError) as error:
            self._object(error, task)
            self._failed = task
            return TableLoad(task.number, task.operator, self.memory)

    def _write(self, working: Core, target: int, offset: int, value: int, task: TaskRef) -> Block:
        found = self._map.lookup(target, offset)
        if found and found[1].name.removeprefix("RDMA_") in _FOLLOWED:
            self._found.log.read.add(found[1])
            fields = _FOLLOWED[found[1].name.removeprefix("RDMA_")]
            self._found.log.fields.update((found[1], name) for name in fields)
        try:
            return super()._write(working, target, offset, value, task)
        except (ExecutionError, IsaError) as error:
            self._object(error, task)
            return found[0] if found else _NOWHERE

    def _object(self, error: RknnError, task: TaskRef) -> None:
        if isinstance(error, UnreadRegisterError) and task is self._failed:
            return  # not read because of the error before it
        node = self._graph.nodes[task.operator] if task.operator < len(self._graph.nodes) else None
        self._found.problems.append(
            Problem(
                path=self._found.path,
                graph=self._graph.index,
                task=task.number,
                operator=f"{node.index} {node.type} {node.name}" if node else str(task.operator),
                register=getattr(error, "register", None) or "",
                text=getattr(error, "message", None) or str(error),
            )
        )


def scan(model: Model, path: str) -> Scan:
    """Count what every task writes and, where the software NPU has the chip, decode it for every number of cores."""
    found = Scan(path, model, map_for(model.chip.name))
    for graph in model.graphs:
        _count(graph, found)
    try:
        Machine(model.chip, Memory())  # says whether the software NPU has this chip
        for graph in model.graphs:
            for raw in (False, True):
                _decode(model, graph, found, raw_pixels=raw)
        found.is_decoded = True
    except UnsupportedError as error:
        found.problems.append(Problem(path, None, None, "", "", str(error)))
    found.problems = list(dict.fromkeys(found.problems))
    return found


def _count(graph: Graph, found: Scan) -> None:
    words = np.asarray(graph.commands, dtype=np.uint64) if graph.tasks else np.zeros(0, np.uint64)
    pieces = [words[task.first_command : task.first_command + task.amount + 4] for task in graph.tasks]
    unique, counts = np.unique(np.concatenate([words[:0], *pieces]), return_counts=True)
    for word, count in zip(unique.tolist(), counts.tolist(), strict=True):
        found.writes[word >> 48, word & 0xFFFF, word >> 16 & 0xFFFF_FFFF] += count
    found.tasks += len(graph.tasks)
    found.commands += int(counts.sum())


def _decode(model: Model, graph: Graph, found: Scan, *, raw_pixels: bool) -> None:
    """Prepare the tasks of every list; pictures as raw pixels and as the model's own type differ in some registers."""
    if not graph.tasks:
        return
    image = link(model, Addresses(_WEIGHT, _INTERNAL))
    commands = image.commands(graph)
    names = [graph.tensors[index].name for index in graph.inputs]
    for command, value in input_values(model, graph, dict.fromkeys(names, raw_pixels)):
        commands[command] = commands[command] & ~_VALUE_MASK | (value & 0xFFFF_FFFF) << _VALUE_SHIFT
    memory = _memory(model, image)
    for core_count in sorted({entry.core_count for entry in graph.task_lists}):
        _Observer(found, graph, memory).prepare(list(_references(model, graph, image, core_count)))


def _memory(model: Model, image: Image) -> Memory:
    internal = max(plan(model).internal_bytes, 1)
    return Memory(
        [
            Buffer(_WEIGHT, np.frombuffer(image.weight, np.uint8), "weights and commands"),
            Buffer(_INTERNAL, np.zeros(internal, np.uint8), "internal"),
        ]
    )


def _references(model: Model, graph: Graph, image: Image, core_count: int) -> Iterator[list[TaskRef]]:
    base = next(
        image.tensor_addresses[graph.index][tensor.name] for tensor in graph.tensors if tensor.kind.name == "COMMANDS"
    )
    lists: list[TaskList] = [entry for entry in graph.chip_lists(model.chip) if entry.core_count == core_count]
    for entry in lists[: model.chip.cores]:
        tasks = ((number, graph.tasks[number]) for number in graph.task_lists[entry])
        yield [TaskRef(number, base + task.address, task.amount, task.op_index) for number, task in tasks]
