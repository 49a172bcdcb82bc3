"""x / sqrt(mean(x * x)) of one pixel, in five tasks.

    t = sum of squares      a pixel is a kernel as stored: one product of it with itself, in the array's fp32
    s = root of t, guessed  half of the bits, within 3.6 %
    q = t / s
    r = (s + q) / 2         Heron's step, within 0.07 %, by the product that spreads it over all channels
    x / r

All of them are forms of the vendor's streams: the product with weights that are an activation (MatMul), the root from
bits (LayerNorm), the spread and the division (Softmax).
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.formats import Format
from openrknn.compiler.forms import UnitNorm
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.bits import root_task
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import Line, matrix_place, moved, pointwise_task, scratch
from openrknn.compiler.program import Place, Task
from openrknn.compiler.recipes.elementwise import Cube, elementwise_task
from openrknn.compiler.recipes.finish import Finish
from openrknn.compiler.recipes.stages import Stages, added, fp16_number, fp32_number, multiplied, scaled
from openrknn.isa.enums import EwAlgorithm
from openrknn.task.kinds import Elementwise
from openrknn.task.place import Address

LARGEST_ERROR = 6.2e-4
"""Of Heron's step, which is never too small."""


def lower_unit_norm(low: Lowering, op: Op) -> None:
    """One step of one core."""
    source, target, form = low.tensor(op.inputs[0]), low.tensor(op.output), op.get(UnitNorm)
    channels, *sides = source.cube
    if channels % 32 or sides != [1, 1]:
        raise UnsupportedOperatorError(f"{op.name!r}: {source.cube} is not one pixel of whole groups of channels")
    numbers, atom = low.target.fp16, low.target.atom_bytes
    total = Place(scratch(low, f"{op.output}_squares", atom))
    guess = Place(scratch(low, f"{op.output}_roots", 2 * atom))
    spread = Cube(Place(scratch(low, f"{op.output}_spread", channels * numbers.element_bytes)), 1)
    step = low.step(op, "exNorm")
    step.macs = channels + 2 * numbers.atom * channels

    line = Line(source.at(), 1, channels, atom)
    low.add(step, pointwise_task(low.target, line, Line(total, 1, 1, atom), 1, source.at(), stages=_scaled_sum(form)))
    few, quotient = (numbers.atom, 1, 1), moved(guess, 1, atom)
    low.add(step, Task(root_task(numbers, few, Cube(total, 1), Cube(guess, 1), is_inverse=False)))
    low.add(step, Task(_divided(numbers, few, Cube(total, 1), Cube(guess, 1), Cube(quotient, 1))))
    roots, all_channels = Line(guess, 1, 2 * numbers.atom, atom), Line(spread.place, 1, channels, atom)
    weights = matrix_place(low, f"{op.name}_spread", _means(channels, numbers.atom, form.power))
    low.add(step, pointwise_task(low.target, roots, all_channels, 1, weights))
    low.add(step, Task(_divided(numbers, (channels, 1, 1), low.cube(op.inputs[0]), spread, Cube(target.at(), 1))))


def _scaled_sum(form: UnitNorm) -> Stages:
    first = form.power // 2  # two factors: one of 2 ** -24 would not be a normal number of fp16
    scaling, rest = (scaled(fp16_number(2.0**-power)) for power in (first, form.power - first))
    return Stages(bias=added(fp32_number(form.addend), scaling, is_float=True), norm=multiplied(rest, is_float=True))


def _divided(
    form: Format, size: tuple[int, int, int], left: Cube, right: Cube, target: Cube
) -> Elementwise[Address]:
    finish = Finish(1.0, None, flying=True)
    finish.operand(EwAlgorithm.DIV, None, relu=False)
    made = elementwise_task(form, size, left, target, finish.stages, right)
    return replace(made, is_narrow=True)  # as the vendor has it: fp16 all the way


def _means(channels: int, atom: int, power: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """[channels, 2 atoms]: of the guess and of the quotient, the first lanes. The root of a mean, not of the sum.

    Both factors are rounded to fp16, the second one so that their sum is nearly right: guess and quotient are as much
    too large as too small.
    """
    both = sqrt(2.0**power / channels) * (1 - LARGEST_ERROR / 2)
    first = fp16_number(both / 2)
    made = np.zeros((channels, 2 * atom))
    made[:, 0], made[:, atom] = first, fp16_number(both - first)
    return made
