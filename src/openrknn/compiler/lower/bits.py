"""Estimates from the bits of fp16 numbers: one task each, which takes the bits for integers.

The exponent is the upper part of a number, so that halving the bits is nearly a root and negating them nearly a
reciprocal. The vendor's converter has the first of them for bf16.
"""

from __future__ import annotations

from dataclasses import replace

from openrknn.compiler.formats import Format
from openrknn.compiler.forms import Estimate
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.compiler.recipes.finish import fp16_bits
from openrknn.compiler.recipes.stages import Stages, added, multiplied, scaled
from openrknn.isa import Precision
from openrknn.task.kinds import Elementwise
from openrknn.task.place import Address
from openrknn.task.stage import Clamp

ROOT_CONSTANT = 0x59BB
"""The constant of fp16 with the smallest largest error: 3.5 %."""
STRAIGHT_ROOT_CONSTANT = 0x1DDB
"""The same of sqrt(x), not 1 / sqrt(x): from 3.5 % below to 3.6 % above."""
INVERSE_CONSTANT = 0x8000
"""Powers of two are exact: 4 / x, which is a normal number for x from 2^-13 to 65504. Others are up to 12.5 % above."""


def lower_estimate(low: Lowering, op: Op) -> None:
    """1 / sqrt(x) is ROOT_CONSTANT - bits / 2, and 4 / x is INVERSE_CONSTANT - bits, but at most 4 / `least`.

    Zeros, as in lanes that pad, are below `least` too: what is made of them stays finite.
    """
    step, cube = low.step(op, "exNorm"), low.tensor(op.output).cube
    source, target = low.cube(op.inputs[0]), low.cube(op.output)
    if op.type == "RootEstimate":
        low.add_rows(step, root_task(low.target.fp16, cube, source, target, is_inverse=True))
        return
    limit = Clamp(INVERSE_CONSTANT - fp16_bits(op.get(Estimate).least))
    low.add_rows(step, _bits_task(low.target.fp16, cube, source, target, -1, 0, INVERSE_CONSTANT, limit))


def root_task(
    form: Format, size: tuple[int, int, int], source: Cube, target: Cube, *, is_inverse: bool
) -> Elementwise[Address]:
    """1 / sqrt(x), or sqrt(x)."""
    factor, constant = (-1, ROOT_CONSTANT) if is_inverse else (1, STRAIGHT_ROOT_CONSTANT)
    return _bits_task(form, size, source, target, factor, 1, constant, None)


def _bits_task(
    form: Format, size: tuple[int, int, int], source: Cube, target: Cube, factor: int, shift: int, constant: int,
    limit: Clamp | None,
) -> Elementwise[Address]:  # fmt: skip
    stages = Stages(
        bias=multiplied(scaled(factor, shift), is_float=False), norm=added(constant, clamp=limit, is_float=False),
        out_precision=Precision.INT16,
    )  # fmt: skip
    made = elementwise_task(form, size, source, target, stages)
    return replace(
        made, dpu=replace(made.dpu, precision=Precision.INT16, in_precision=Precision.INT16),
        reader=replace(made.reader, precision=Precision.INT16, proc_precision=Precision.INT16),
    )  # fmt: skip
