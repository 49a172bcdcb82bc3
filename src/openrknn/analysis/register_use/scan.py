"""Decodes the command streams of one model, for every number of cores and every kind of input, without running them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from openrknn.chip.maps import map_for
from openrknn.chip.watch import Watcher
from openrknn.container.link import plan
from openrknn.container.model import Model
from openrknn.container.parts import Graph, Task
from openrknn.container.patch import input_values
from openrknn.container.sizes import internal_bytes
from openrknn.device import DeviceBuffer, SoftwareDevice
from openrknn.errors import RknnError, UnsupportedError
from openrknn.isa import Register, RegisterMap
from openrknn.isa.words import TAIL_WORDS, WORD_BYTES, Command
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.runtime.program.relocate import addresses_of, relocated_tasks, write_commands, write_values
from openrknn.runtime.program.steps import operators_to_run
from openrknn.runtime.program.weights import WeightStore


def scan(model: Model, path: str) -> Scan:
    """Count what every task writes and, where the software NPU has the chip, decode it for every number of cores.

    Tasks of the boundary (layouts of inputs and outputs) are left out: no runtime executes them.
    """
    found = Scan(path, model, map_for(model.chip.name))
    for graph in model.graphs:
        _count(graph, _executed(model, graph), found)
    try:
        Machine(model.chip, Memory())  # says whether the software NPU has this chip
        with SoftwareDevice(model.chip) as device:
            weights = _weights(model, device)
            for graph in model.graphs:
                for raw in (False, True):
                    _decode(model, graph, found, device, weights, raw_pixels=raw)
        found.is_decoded = True
    except UnsupportedError as error:
        found.problems.append(Problem(path, None, None, "", "", str(error)))
    found.problems = list(dict.fromkeys(found.problems))
    return found


def _executed(model: Model, graph: Graph) -> set[int]:
    """The numbers of the tasks that belong to real operators."""
    indices = {operator.index for operator in operators_to_run(model.operators_of(graph))}
    return {number for number, task in enumerate(graph.tasks) if task.op_index in indices}


def _count(graph: Graph, executed: set[int], found: Scan) -> None:
    words = np.asarray(graph.commands, dtype=np.uint64) if graph.tasks else np.zeros(0, np.uint64)
    tasks: list[Task] = [graph.tasks[number] for number in sorted(executed)]
    pieces = [words[task.first_command : task.first_command + task.amount + TAIL_WORDS] for task in tasks]
    unique, counts = np.unique(np.concatenate([words[:0], *pieces]), return_counts=True)
    for word, count in zip(unique.tolist(), counts.tolist(), strict=True):
        found.writes[Command.decode(word)] += count
    found.tasks += len(tasks)
    found.commands += int(counts.sum())


@dataclass(frozen=True, slots=True)
class _Weights:
    buffer: DeviceBuffer
    offsets: Sequence[Mapping[str, int]]


def _weights(model: Model, device: SoftwareDevice) -> _Weights:
    """The constants in memory. Where the file has none (`remove_weight`) zeros do: nothing is computed here."""
    try:
        store = WeightStore(model, device, owns_device=False)
        return _Weights(store.buffer or device.allocate(1, "weights"), store.offsets)
    except UnsupportedError:
        layout = plan(model)
        return _Weights(device.allocate(max(layout.weight_bytes, 1), "weights"), layout.weight_offsets)


def _decode(
    model: Model, graph: Graph, found: Scan, device: SoftwareDevice, weights: _Weights, *, raw_pixels: bool
) -> None:
    """Prepare the tasks of every list; pictures as raw pixels and as the model's own type differ in some registers."""
    if not graph.tasks:
        return
    internal = device.allocate(max(internal_bytes(graph), 1), "internal")
    commands = device.allocate(WORD_BYTES * len(graph.commands), "commands")
    words = commands.array.view(np.uint64)
    located = addresses_of(
        graph,
        commands=commands.address,
        weights=weights.buffer.address,
        weight_offsets=weights.offsets[graph.index],
        internal=internal.address,
        tensors={},
    )
    write_commands(graph, words, commands.address, located)
    names = [graph.tensors[index].name for index in graph.inputs]
    write_values(words, dict(input_values(model, graph, dict.fromkeys(names, raw_pixels))))
    memory = Memory([Buffer(item.address, item.array, item.name) for item in (weights.buffer, internal, commands)])
    for core_count in sorted({entry.core_count for entry in graph.task_lists}):
        machine = Machine(model.chip, memory, watcher=Observer(found, graph))
        machine.prepare(list(_references(model, graph, commands.address, core_count)))


def _references(model: Model, graph: Graph, commands: int, core_count: int) -> Iterator[list[TaskRef]]:
    executed = _executed(model, graph)
    tasks = relocated_tasks(graph, commands)
    lists = [entry for entry in graph.chip_lists(model.chip) if entry.core_count == core_count]
    for entry in lists[: model.chip.cores]:
        chosen = [(number, tasks[number]) for number in graph.task_lists[entry] if number in executed]
        yield [TaskRef(number, task.address, task.amount, task.op_index) for number, task in chosen]


# Looks on while a software NPU decodes streams: notes what every block looks at, and goes on after an error.
#
# Strict mode sees registers that nobody reads. This sees more: single fields of a register that is read.

R = TypeVar("R", bound=Register)

# Registers that the machine itself follows while it decodes, with the fields that it looks at.
_FOLLOWED = {
    "S_POINTER": ("pointer", "pointer_pp_en", "pointer_pp_clear"),
    "LUT_ACCESS_CFG": ("lut_addr", "lut_table_id", "lut_access_type"),
    "LUT_ACCESS_DATA": ("lut_access_data",),
}


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
    """What the blocks did with registers, by offset: families of chips share some of them under several classes."""

    read: set[int] = field(default_factory=set)
    waived: set[int] = field(default_factory=set)
    """Known to have no effect on results."""
    zero: set[int] = field(default_factory=set)
    """Anything but 0 would be refused."""
    fields: set[tuple[int, str]] = field(default_factory=set)


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


_WATCHING: dict[type[Register], type[Register]] = {}


def _watching(register: type[Register]) -> type[Register]:
    """A subclass of the register that notes each field that is read."""
    names = frozenset(item.name for item in register.fields())

    def get(self: Register, name: str) -> object:
        # `.values()` hands out all fields at once: who asks for it is taken to look at each.
        if name in names or name == "values":
            looked_at = names if name == "values" else (name,)
            object.__getattribute__(self, "log").fields.update((register.offset, item) for item in looked_at)
        return object.__getattribute__(self, name)

    return type(register.__name__, (register,), {"__slots__": ("log",), "__getattribute__": get})


class Observer(Watcher):
    """Notes what a machine does with the registers of one graph, and has it go on after an error."""

    def __init__(self, found: Scan, graph: Graph) -> None:
        self._found = found
        self._log = found.log
        self._graph = graph

    def wrote(self, register: type[Register]) -> None:
        fields = _FOLLOWED.get(register.name.removeprefix("RDMA_"))
        if fields:
            self._log.read.add(register.offset)
            self._log.fields.update((register.offset, name) for name in fields)

    def read(self, value: R) -> R:
        register = type(value)
        self._log.read.add(register.offset)
        if register not in _WATCHING:
            _WATCHING[register] = _watching(register)
        watched = _WATCHING[register](value.value)
        object.__setattr__(watched, "log", self._log)
        return watched  # type: ignore[return-value]

    def waived(self, offsets: Iterable[int]) -> None:
        self._log.waived.update(offsets)

    def expects_zero(self, offsets: Iterable[int]) -> None:
        self._log.zero.update(offsets)

    def failed(self, error: RknnError, task: TaskRef) -> bool:
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
        return True
