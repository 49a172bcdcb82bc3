"""What lowering makes: tensors with a layout, steps with tasks in natural units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from openrknn.compiler.formats import Format
from openrknn.compiler.ir import Quantization
from openrknn.compiler.targets import Target
from openrknn.container.parts import DataType, Kind
from openrknn.task.kinds import Work
from openrknn.task.place import Place

__all__ = ["Place", "Program", "Step", "Table", "Task", "Tensor"]


class Table(NamedTuple):
    """A lookup table: 513 entries for numbers below zero, 513 from zero on."""

    name: str
    low: tuple[int, ...]
    high: tuple[int, ...]


@dataclass(slots=True)
class Task:
    """One run of some blocks of the NPU."""

    work: Work
    """In natural units."""
    table: Table | None = None
    """Written by this task's commands."""
    halves: tuple[int, ...] = (0, 1)
    """Which halves of the table: 0 below zero, 1 from zero on."""
    picture: str | None = None
    """The image input that it reads: registers that the runtime patches."""
    first_row: int = 0


@dataclass(slots=True)
class Tensor:
    """A buffer, or a window into another one."""

    name: str
    kind: Kind
    dtype: DataType
    shape: tuple[int, ...]
    layout: str
    """feature, picture, plain, weights or data."""
    cube: tuple[int, int, int] = (1, 1, 1)
    pitch: int = 0
    """Feature maps: atoms from one surface to the next."""
    native_shape: tuple[int, ...] = ()
    quantization: Quantization | None = None
    data: bytes | None = None
    parent: str | None = None
    parent_offset: int = 0
    """Bytes into the parent."""
    size_bytes: int = 0
    offset: int = 0
    """In internal memory; filled by the plan."""
    element_bytes: int = 1
    atom_bytes: int = field(kw_only=True)
    """Of the target's atoms, or of the fp32 atoms that RK3566 writes for lookup tables."""

    def at(self, channel: int = 0, row: int = 0, column: int = 0) -> Place:
        """The atom of a channel and pixel."""
        return self.pixel(channel, row * self.cube[2] + column)

    def pixel(self, channel: int, number: int) -> Place:
        """The atom of a channel and of one of all pixels, row by row."""
        surface = channel * self.element_bytes // self.atom_bytes
        return Place(self.name, (surface * self.pitch + number) * self.atom_bytes)


@dataclass(slots=True)
class Step:
    """One operator of the file."""

    type: str
    name: str
    inputs: list[str]
    outputs: list[str]
    tasks: list[Task] = field(default_factory=list)
    """One core does all of them."""
    shares: dict[int, list[list[Task]]] = field(default_factory=dict)
    """Number of cores -> the tasks of each; a number that is not there: core 0 does the step alone."""
    follows: bool = False
    """Shared: each core reads nothing that another one made in the step before, so that they need not meet."""
    is_cpu: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)
    table: str | None = None
    """The lookup table that its tasks need."""
    macs: int = 0
    fused: tuple[str, ...] = ()


@dataclass(slots=True)
class Program:
    """A lowered graph."""

    name: str
    format: Format
    inputs: list[str]
    outputs: list[str]
    target: Target
    tensors: dict[str, Tensor] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    internal_bytes: int = 0
    is_joined: bool = False
    """The lists of several cores are one job (`link.joined`)."""

    def root(self, name: str) -> tuple[Tensor, int]:
        """The buffer of a tensor, and its offset there."""
        tensor, offset = self.tensors[name], 0
        while tensor.parent is not None:
            offset += tensor.parent_offset
            tensor = self.tensors[tensor.parent]
        return tensor, offset
