"""EW, the element-wise stage of the DPU: lookup table, then an operation with a second operand, then clamp.

    e = round((e + offset) * scale >> shift)   or   round(e * scale >> shift) + offset       operand converter
    x = table(x);   x = x op e;   x = x * factor;   x = clamp(x)

The table comes first: streams for sigmoid leave the operation on as max(x, 0) after it. Only chips whose EW has a
switch per part can add and multiply at once: Newton's square root y = (y + x / y) * 0.5 shows that order, for the
other one, y * 0.5 + x / y, would converge to the root of 2 x.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from openrknn import numerics
from openrknn.isa.enums import EwAlgorithm
from openrknn.npu.blocks.dpu import lut
from openrknn.npu.blocks.dpu.stage import apply_clamp
from openrknn.npu.blocks.formats import Numbers
from openrknn.task.ew import Config, Converter, Operation

__all__ = ["apply"]


def apply(values: Numbers, config: Config | None, fetch: Callable[[], Numbers]) -> Numbers:
    """x = clamp((table(x) op e) * factor); `fetch` reads the operand from memory when one is needed."""
    if config is None:
        return values
    result = lut.apply(values, config.table)
    if config.operation is not None:
        operand = fetch() if config.operation.operand is None else result.dtype.type(config.operation.operand)
        if config.operation.converter is not None:
            operand = _convert(np.asarray(operand), config.operation.converter)
        result = _operate(result, operand, config.operation)
    if config.factor is not None:
        result = result * result.dtype.type(config.factor)
    return apply_clamp(result, config.clamp)


def _convert(operand: Numbers, converter: Converter) -> Numbers:
    if converter.add_first:
        return numerics.shift_right((operand + converter.offset) * converter.scale, converter.shift, converter.rounding)
    return numerics.shift_right(operand * converter.scale, converter.shift, converter.rounding) + converter.offset


def _operate(values: Numbers, operand: Numbers, operation: Operation) -> Numbers:
    if operation.multiplies:
        product: Numbers = values * operand
        if operation.negative_only:  # the shift is for both signs, as in BN
            product = np.where(values < 0, product, values)
        if product.dtype.kind == "i" and (operation.shift or operation.shift_negative):
            shift = np.where(product < 0, operation.shift_negative, operation.shift)
            product = numerics.shift_right(product, shift)
        return product
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Numbers = _ALU[operation.algorithm](values, operand)
    return result.astype(values.dtype)


_ALU: dict[EwAlgorithm, Callable[[Numbers, Numbers], Numbers]] = {
    EwAlgorithm.MAX: numerics.larger,
    EwAlgorithm.MIN: numerics.smaller,
    EwAlgorithm.ADD: np.add,
    EwAlgorithm.DIV: np.true_divide,
    EwAlgorithm.MINUS: np.subtract,
    EwAlgorithm.ABS: lambda values, _: np.abs(values),
    EwAlgorithm.NEG: lambda values, _: -values,
    EwAlgorithm.FLOOR: lambda values, _: np.floor(values),
    EwAlgorithm.CEIL: lambda values, _: np.ceil(values),
}
