"""BS and BN, the first two stages of the DPU: an addend, a multiplier, two shifts, a clamp.

They differ in the order of add and multiply; on RK3562, RK3576 and RV1103/06 BN works in the order of BS.

    BS      x = x + a;  x = x * m >> n;  x = clamp(x)
    BN      x = (x * m + a) >> n;        x = clamp(x)

n depends on the sign of what is shifted; that is how LeakyReLU gets its slope. With `negative_only` values >= 0 are not
multiplied; what follows, the shift too, is for both signs (a board reads licence plates so). Floating point: fp32 after
each step, no shift.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openrknn import numerics
from openrknn.errors import UnknownModeError
from openrknn.npu.blocks.formats import Numbers
from openrknn.npu.blocks.rdma import ChannelOperands

__all__ = ["Clamp", "Scaling", "Stage", "apply_bn", "apply_bs"]


@dataclass(frozen=True, slots=True)
class Clamp:
    """max(x, lower), and min(x, upper) if there is an upper end; `lower` is 0 but on chips whose clamps are pairs."""

    upper: float | None
    lower: float | None = 0
    below: float | None = None
    """What values under `lower` become, if that is not `lower` itself."""

    def __call__(self, values: Numbers) -> Numbers:
        clipped = values
        if self.lower is not None:
            lower = values.dtype.type(self.lower)
            if self.below is None:
                clipped = numerics.larger(values, lower)
            else:
                clipped = np.where(values < lower, values.dtype.type(self.below), values)
        return clipped if self.upper is None else numerics.smaller(clipped, values.dtype.type(self.upper))


@dataclass(frozen=True, slots=True)
class Scaling:
    """A multiplication; `operand` None means per channel from memory."""

    operand: float | None
    shift: int
    shift_negative: int
    negative_only: bool


@dataclass(frozen=True, slots=True)
class Stage:
    """BS or BN in natural units; parts that are bypassed are None."""

    addend: float | None
    """A number, or None: per channel from memory (if `adds`)."""
    adds: bool
    subtracts: bool
    scaling: Scaling | None
    clamp: Clamp | None
    is_float: bool
    adds_first: bool = False
    """BN of RK3562, RK3576 and RV1103/06 adds before it multiplies, as BS does."""
    takes_larger: bool = False
    """The larger of x and a in place of their sum: Max with a constant per channel on RK3566 and RV1103/06."""

    def add(self, values: Numbers, operands: ChannelOperands) -> Numbers:
        """x + a, x - a or the larger of the two."""
        if not self.adds:
            return values
        addend = _per_channel(operands.alu, values, "addends") if self.addend is None else self.addend
        number = values.dtype.type(addend) if isinstance(addend, int | float) else addend
        if self.takes_larger:
            return numerics.larger(values, number)
        return values - number if self.subtracts else values + number

    def multiply(self, values: Numbers, operands: ChannelOperands) -> Numbers:
        """x * m, not yet shifted."""
        if self.scaling is None:
            return values
        operand = self.scaling.operand
        factor = _per_channel(operands.mul, values, "multipliers") if operand is None else values.dtype.type(operand)
        product: Numbers = values * factor
        return np.where(values < 0, product, values) if self.scaling.negative_only else product

    def shift(self, products: Numbers) -> Numbers:
        """The shift after a product or sum; floats are not shifted."""
        if self.scaling is None or self.is_float:
            return products
        scaling = self.scaling
        if scaling.shift == scaling.shift_negative:
            return numerics.shift_right(products, scaling.shift)
        return numerics.shift_right(products, np.where(products < 0, scaling.shift_negative, scaling.shift))


def _per_channel(operand: Numbers | None, values: Numbers, what: str) -> Numbers:
    if operand is None or len(operand) < len(values):
        raise UnknownModeError(f"{what} per channel are needed but not read from memory")
    return operand[: len(values), None, None]


def apply_bs(values: Numbers, stage: Stage | None, operands: ChannelOperands) -> Numbers:
    """x = clamp((x + a) * m >> n)"""
    if stage is None:
        return values
    scaled = stage.shift(stage.multiply(stage.add(values, operands), operands))
    return stage.clamp(scaled) if stage.clamp else scaled


def apply_bn(values: Numbers, stage: Stage | None, operands: ChannelOperands) -> Numbers:
    """x = clamp((x * m + a) >> n)"""
    if stage is None:
        return values
    if stage.adds_first:
        return apply_bs(values, stage, operands)
    result = stage.shift(stage.add(stage.multiply(values, operands), operands))
    return stage.clamp(result) if stage.clamp else result
