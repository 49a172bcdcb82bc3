"""Products of fp16 with weights of int4 and scales: RK3576 and chips like it.

CNA makes fp16 of the weights, so all behind it is a product of fp16; the sums are multiplied by a scale for each output
on their way out. A group of inputs with scales of its own is a task of its own, which adds what the groups before it
made, in fp16.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.formats import align
from openrknn.compiler.forms import NarrowProduct
from openrknn.compiler.ir import Array, Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import Line, line_pixels, moved, pointwise_task, scratch
from openrknn.compiler.program import Place, Step, Task
from openrknn.compiler.recipes.convolution import Residual
from openrknn.compiler.recipes.finish import Finish
from openrknn.compiler.recipes.stages import Stages, multiplied, scaled
from openrknn.container.parts import DataType
from openrknn.isa.enums import EwAlgorithm, OperandKinds, Precision
from openrknn.layout.operands import Operands, pack_operands
from openrknn.layout.weights import pack_weights
from openrknn.numerics import pack_int4
from openrknn.task.kinds import Convolution

_GROUP = 32
"""Inputs that are stored together."""


def lower_narrow(low: Lowering, op: Op) -> None:
    """Inputs: map, weights [O, I] from -8 to 7, scales [O, groups]; a fourth one is added to the result."""
    source, target = low.tensor(op.inputs[0]), low.tensor(op.output)
    inputs, outputs = source.cube[0], target.cube[0]
    matrix, scales = (np.asarray(low.graph.constants[name]) for name in op.inputs[1:3])
    groups, heads = scales.shape[1], op.get(NarrowProduct).heads
    if inputs % (_GROUP * groups) or groups % heads or not low.target.narrow_weights:
        raise UnsupportedOperatorError(
            f"{op.name!r}: {low.target.name} has no int4 weights for {inputs} inputs in groups of {inputs // groups}"
        )
    step = low.step(op, "exMatMul")
    step.macs = inputs * outputs * source.cube[1] * source.cube[2]
    size, room = inputs // groups, low.target.fp16.surfaces(outputs) * target.pitch * low.target.atom_bytes
    sums = [Sums(Place(scratch(low, f"{op.output}_sums", room)), target.pitch) for _ in range(min(groups - 1, 2))]
    before = _sums(low, op.inputs[3]) if len(op.inputs) > 3 else None
    for group in range(groups):
        made = sums[group % 2] if group < groups - 1 else _sums(low, op.output)
        part, at = slice(group * size, (group + 1) * size), f"_{group}" if groups > 1 else ""
        places = (
            _weights(low, f"{op.name}_w{at}", matrix[:, part]),
            _scales(low, f"{op.name}_scales{at}", scales[:, group]),
        )
        step.inputs += [one.tensor for one in places]
        _product(low, op, step, part, *places, before, made)
        before = made


class Sums(NamedTuple):
    """A map of all outputs."""

    place: Place
    pitch: int

    def at(self, pixel: int, atom_bytes: int) -> Place:
        return moved(self.place, pixel, atom_bytes)


def _sums(low: Lowering, name: str) -> Sums:
    return Sums(low.tensor(name).at(), low.tensor(name).pitch)


def _product(
    low: Lowering, op: Op, step: Step, part: slice, weights: Place, scales: Place, before: Sums | None, made: Sums
) -> None:
    """Of some inputs, plus what is there already."""
    source, outputs, atom = low.tensor(op.inputs[0]), low.tensor(op.output).cube[0], low.target.atom_bytes
    stages = Stages(norm=multiplied(scaled(None), is_float=True), norm_kinds=OperandKinds.MUL, norm_address=scales)
    if before is not None:
        finish = Finish(1.0, None, flying=False, stages=stages)
        finish.operand(EwAlgorithm.ADD, None, relu=False)
        stages = finish.stages
    heads, first = op.get(NarrowProduct).heads, part.start
    if heads > 1:
        surface = low.target.fp16.atom
        head, within = divmod(first, source.cube[0] // heads)
        first = within * heads + head * surface
    read = Line(source.at(first), source.pitch * heads, part.stop - part.start, atom)
    written = Line(made.place, made.pitch, outputs, atom)
    for first, count in line_pixels(low.target, read.channels, source.cube[1] * source.cube[2]):
        addend = None if before is None else Residual(before.at(first, atom), before.pitch)
        task = pointwise_task(
            low.target, read.at(first), written.at(first), count, weights, addend=addend, stages=stages, reads=True
        )
        low.add(step, _narrowed(task))


def _narrowed(task: Task) -> Task:
    work = task.work
    assert isinstance(work, Convolution)
    source = work.source
    narrow = replace(source, weight_precision=Precision.INT4, weight_bytes=source.weight_bytes // 4)
    return replace(task, work=replace(work, source=narrow))


def _weights(low: Lowering, name: str, matrix: Array) -> Place:
    tiles = low.target.weights((*matrix.shape, 1, 1), low.target.fp16.element_bytes)
    stored = pack_int4(pack_weights(matrix.astype(np.int8)[:, :, None, None], tiles, np.zeros(len(matrix), np.int8)))
    return Place(low.data(name, stored.tobytes(), (stored.size,), DataType.INT8, "weights"))


def _scales(low: Lowering, name: str, scales: Array) -> Place:
    numbers = tuple(int(one) for one in scales.astype(np.float16).view(np.int16))
    stream = pack_operands(Operands(None, None, numbers), low.target.operand_group, channels=align(len(scales), 64))
    return Place(low.data(name, stream, (len(stream) // 2,), DataType.INT16))
