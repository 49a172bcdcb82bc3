"""BS and BN, the first two stages of the DPU: an addend, a multiplier, two shifts, a clamp.

They differ in the order of add and multiply; on RK3562, RK3576 and RV1103/06 BN works in the order of BS.

    BS      x = x + a;  x = x * m >> n;  x = clamp(x)
    BN      x = (x * m + a) >> n;        x = clamp(x)

n depends on the sign of what is shifted; that is how LeakyReLU gets its slope. With `negative_only` values >= 0 are not
multiplied; what follows, the shift too, is for both signs (a board reads licence plates so). Floating point: fp32 after
each step, no shift.
"""

from __future__ import annotations

import numpy as np

from openrknn import numerics
from openrknn.errors import UnknownModeError
from openrknn.npu.blocks.formats import Numbers
from openrknn.npu.blocks.rdma import ChannelOperands
from openrknn.task.stage import Clamp, Stage

__all__ = ["apply_bn", "apply_bs", "apply_clamp"]


def apply_clamp(values: Numbers, clamp: Clamp | None) -> Numbers:
    """max(x, lower), min(x, upper); all of `values` without a clamp."""
    if clamp is None:
        return values
    clipped = values
    if clamp.lower is not None:
        lower = values.dtype.type(clamp.lower)
        if clamp.below is None:
            clipped = numerics.larger(values, lower)
        else:
            clipped = np.where(values < lower, values.dtype.type(clamp.below), values)
    return clipped if clamp.upper is None else numerics.smaller(clipped, values.dtype.type(clamp.upper))


def _add(stage: Stage, values: Numbers, operands: ChannelOperands) -> Numbers:
    """x + a, x - a or the larger of the two."""
    if not stage.adds:
        return values
    addend = _per_channel(operands.alu, values, "addends") if stage.addend is None else stage.addend
    number = values.dtype.type(addend) if isinstance(addend, int | float) else addend
    if stage.takes_larger:
        return numerics.larger(values, number)
    return values - number if stage.subtracts else values + number


def _multiply(stage: Stage, values: Numbers, operands: ChannelOperands) -> Numbers:
    """x * m, not yet shifted."""
    if stage.scaling is None:
        return values
    operand = stage.scaling.operand
    factor = _per_channel(operands.mul, values, "multipliers") if operand is None else values.dtype.type(operand)
    product: Numbers = values * factor
    return np.where(values < 0, product, values) if stage.scaling.negative_only else product


def _shift(stage: Stage, products: Numbers) -> Numbers:
    """The shift after a product or sum; floats are not shifted."""
    if stage.scaling is None or stage.is_float:
        return products
    scaling = stage.scaling
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
    scaled = _shift(stage, _multiply(stage, _add(stage, values, operands), operands))
    return apply_clamp(scaled, stage.clamp)


def apply_bn(values: Numbers, stage: Stage | None, operands: ChannelOperands) -> Numbers:
    """x = clamp((x * m + a) >> n)"""
    if stage is None:
        return values
    if stage.adds_first:
        return apply_bs(values, stage, operands)
    result = _shift(stage, _add(stage, _multiply(stage, values, operands), operands))
    return apply_clamp(result, stage.clamp)
