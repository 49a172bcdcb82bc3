"""DPU_RDMA: what the four readers of the DPU fetch."""

from __future__ import annotations

from typing import Generic, TypeVar

from openrknn.chips import CHIPS
from openrknn.isa import Precision
from openrknn.isa.enums import CombineUse, OperandKinds, OperandMode
from openrknn.records import dataclass
from openrknn.task.formats import ATOM_BYTES
from openrknn.task.place import A

__all__ = ["Config", "Operand", "Walk", "walk"]

N = TypeVar("N")


@dataclass(frozen=True, slots=True)
class Walk(Generic[A]):
    """A tensor in memory: where it starts and how far lines and surfaces are apart."""

    address: A
    line_bytes: int
    surface_bytes: int


@dataclass(frozen=True, slots=True)
class Operand(Generic[A]):
    """The EW operand."""

    mode: OperandMode
    bytes_each: int
    walk: Walk[A]
    stride_bytes: int = 0
    """From surface to surface of the tensor itself, which two readers may share. No result depends on it."""


@dataclass(frozen=True, slots=True)
class Config(Generic[A]):
    """What the four readers do, in natural units."""

    width: int
    height: int
    channels: int
    precision: Precision
    proc_precision: Precision
    main: Walk[A] | None
    bias_kinds: OperandKinds
    bias_address: A
    norm_kinds: OperandKinds
    norm_address: A
    operand: Operand[A] | None
    combine: CombineUse
    repeat_x: int
    """Nearest upsampling: each atom this often along the row."""
    repeat_y: int
    repeats: bool
    atom_bytes: int = ATOM_BYTES
    operand_block: int = CHIPS["rk3588"].bias_group
    """Channels in one block of operands per channel."""
    byte_corrections: bool = False
    """The corrections of two blocks are bytes behind the first of them (RV1103B/06B)."""


def walk(
    address: N, width: int, height: int, *, line_notch: int, surface_notch: int, atom_bytes: int = ATOM_BYTES
) -> Walk[N]:
    """The pitches that follow from sizes and notches, which count atoms."""
    line = width + line_notch
    return Walk(address, line * atom_bytes, ((height - 1) * line + width + surface_notch) * atom_bytes)
