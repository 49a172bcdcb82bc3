"""Looks on while a software NPU decodes streams: notes what every block looks at, and goes on after an error.

Strict mode sees registers that nobody reads. This sees more: single fields of a register that is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from openrknn.chip.watch import Watcher
from openrknn.container.model import Model
from openrknn.container.parts import Graph
from openrknn.errors import RknnError
from openrknn.isa import Register, RegisterMap
from openrknn.npu import TaskRef

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
