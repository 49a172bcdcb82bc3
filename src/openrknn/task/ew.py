"""EW, the element-wise stage of the DPU: lookup table, an operation with a second operand, clamp."""

from __future__ import annotations

from openrknn import numerics
from openrknn.isa.enums import EwAlgorithm
from openrknn.records import dataclass
from openrknn.task import lut
from openrknn.task.stage import Clamp

__all__ = ["Config", "Converter", "Operation"]


@dataclass(frozen=True, slots=True)
class Converter:
    """Integer operands only."""

    add_first: bool
    offset: int
    scale: int
    shift: int
    rounding: numerics.Rounding


@dataclass(frozen=True, slots=True)
class Operation:
    """x op e; `operand` None means a tensor through ERDMA."""

    multiplies: bool
    algorithm: EwAlgorithm
    operand: float | None
    converter: Converter | None
    negative_only: bool
    shift: int
    shift_negative: int


@dataclass(frozen=True, slots=True, eq=False)
class Config:
    """The stage in natural units; parts that are bypassed are None."""

    table: lut.Config | None
    operation: Operation | None
    clamp: Clamp | None
    factor: float | None = None
    """What the sum is multiplied by, of streams that add and multiply at once; real numbers only."""
