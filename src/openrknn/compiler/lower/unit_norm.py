"""x / sqrt(mean(x * x)) of each pixel: five tasks for one, six for several.

    t = sum of squares      a pixel is a kernel as stored: one product of it with itself, in the array's fp32
    s = root of t, guessed  half of the bits, within 3.6 %
    q = t / s
    r = (s + q) / 2         Heron's step, within 0.07 %, by the product that spreads it over all channels
    x / r

Channels of one of several pixels do not lie together, so these are squared and added up in two tasks. Squares are fp16:
they are divided by the power of two that the sums are divided by.

All of them are forms of the vendor's streams: the product with weights that are an activation (MatMul), the root from
bits (LayerNorm), the spread and the division (Softmax).
"""

from __future__ import annotations

from collections.abc import Iterator
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
from openrknn.isa.enums import EwAlgorithm, EwOperation
from openrknn.task.kinds import Elementwise
from openrknn.task.place import Address

LARGEST_ERROR = 6.2e-4
"""Of Heron's step, which is never too small."""


def lower_unit_norm(low: Lowering, op: Op) -> None:
    """One step of one core."""
    source, target, form = low.tensor(op.inputs[0]), low.tensor(op.output), op.get(UnitNorm)
    channels, height, pixels = source.cube
    if channels % 32 or height != 1 or {source.pitch, target.pitch} != {pixels}:
        raise UnsupportedOperatorError(f"{op.name!r}: {source.cube} is not a line of whole groups of channels")
    numbers, atom = low.target.fp16, low.target.atom_bytes
    total = Cube(Place(scratch(low, f"{op.output}_sums", pixels * atom)), pixels)
    guess = Cube(Place(scratch(low, f"{op.output}_roots", 2 * pixels * atom)), pixels)
    spread = Cube(Place(scratch(low, f"{op.output}_spread", pixels * channels * numbers.element_bytes)), pixels)
    step = low.step(op, "exNorm")
    step.macs = pixels * (channels + 2 * numbers.atom * channels)

    for task in _sums(low, op, Line(total.place, pixels, 1, atom)):
        low.add(step, task)
    few, quotient = (numbers.atom, 1, pixels), Cube(moved(guess.place, pixels, atom), pixels)
    low.add(step, Task(root_task(numbers, few, total, guess, is_inverse=False)))
    low.add(step, Task(_divided(numbers, few, total, guess, quotient)))
    roots, all_channels = Line(guess.place, pixels, 2 * numbers.atom, atom), Line(spread.place, pixels, channels, atom)
    weights = matrix_place(low, f"{op.name}_spread", _means(channels, numbers.atom, form.power))
    low.add(step, pointwise_task(low.target, roots, all_channels, pixels, weights))
    whole = (channels, 1, pixels)
    low.add(step, Task(_divided(numbers, whole, low.cube(op.inputs[0]), spread, Cube(target.at(), pixels))))


def _sums(low: Lowering, op: Op, total: Line) -> Iterator[Task]:
    """(sum of squares + addend) / 2 ** power of each pixel."""
    form, source, atom = op.get(UnitNorm), low.tensor(op.inputs[0]), low.target.atom_bytes
    channels, _, pixels = source.cube
    line = Line(source.at(), pixels, channels, atom)
    if pixels == 1:
        yield pointwise_task(low.target, line, total, 1, source.at(), stages=_scaled(form.power, form.addend))
        return
    squares = replace(line, place=Place(scratch(low, f"{op.output}_squares", pixels * channels * 2)))
    finish = Finish(1.0, None, flying=True, stages=_scaled(form.power))
    finish.operand(EwOperation.MUL, None, relu=False)
    given, made = low.cube(op.inputs[0]), Cube(squares.place, pixels)
    yield Task(elementwise_task(low.target.fp16, (channels, 1, pixels), given, made, finish.stages, given))
    ones = matrix_place(low, f"ones_{channels}", np.ones((1, channels)))
    yield pointwise_task(low.target, squares, total, pixels, ones, stages=_scaled(0, form.addend / 2.0**form.power))


def _scaled(power: int, addend: float = 0.0) -> Stages:
    first = power // 2  # two factors: one of 2 ** -24 would not be a normal number of fp16
    scaling, rest = (scaled(fp16_number(2.0**-power)) for power in (first, power - first))
    return Stages(bias=added(fp32_number(addend), scaling, is_float=True), norm=multiplied(rest, is_float=True))


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
