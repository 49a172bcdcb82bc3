"""Products of fp16 with weights of int4 and a scale for each output: RK3576 and chips like it.

CNA makes fp16 of the weights, so all behind it is a product of fp16; the sums are multiplied by the scales on their way
out. A scale for each group of inputs would be a product of its own, whose sums are added behind it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.formats import align
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import Line, line_pixels, pointwise_task
from openrknn.compiler.program import Place, Task
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
    """Inputs: map, weights [O, I] from -8 to 7, scales [O]; a fourth one is added to the result."""
    source, target, atom = low.tensor(op.inputs[0]), low.tensor(op.output), low.target.atom_bytes
    inputs, outputs = source.cube[0], target.cube[0]
    if inputs % _GROUP or not low.target.narrow_weights:
        raise UnsupportedOperatorError(f"{op.name!r}: {low.target.name} has no int4 weights for {inputs} inputs")
    step = low.step(op, "exMatMul")
    pixels = source.cube[1] * source.cube[2]
    step.macs = inputs * outputs * pixels
    weights, scales = _weights(low, op), _scales(low, op)
    step.inputs += [weights.tensor, scales.tensor]
    stages = Stages(norm=multiplied(scaled(None), is_float=True), norm_kinds=OperandKinds.MUL, norm_address=scales)
    added = low.tensor(op.inputs[3]) if len(op.inputs) > 3 else None
    if added is not None:
        finish = Finish(1.0, None, flying=False, stages=stages)
        finish.operand(EwAlgorithm.ADD, None, relu=False)
        stages = finish.stages
    read, made = (Line(one.at(), one.pitch, one.cube[0], atom) for one in (source, target))
    for first, count in line_pixels(low.target, inputs, pixels):
        addend = None if added is None else Residual(added.pixel(0, first), added.pitch)
        task = pointwise_task(
            low.target, read.at(first), made.at(first), count, weights, addend=addend, stages=stages, reads=True
        )
        low.add(step, _narrowed(task))


def _narrowed(task: Task) -> Task:
    work = task.work
    assert isinstance(work, Convolution)
    source = work.source
    narrow = replace(source, weight_precision=Precision.INT4, weight_bytes=source.weight_bytes // 4)
    return replace(task, work=replace(work, source=narrow))


def _weights(low: Lowering, op: Op) -> Place:
    matrix = np.asarray(low.graph.constants[op.inputs[1]])
    tiles = low.target.weights((*matrix.shape, 1, 1), low.target.fp16.element_bytes)
    stored = pack_int4(pack_weights(matrix.astype(np.int8)[:, :, None, None], tiles, np.zeros(len(matrix), np.int8)))
    return Place(low.data(f"{op.name}_w", stored.tobytes(), (stored.size,), DataType.INT8, "weights"))


def _scales(low: Lowering, op: Op) -> Place:
    scales = np.asarray(low.graph.constants[op.inputs[2]]).astype(np.float16)
    numbers = tuple(int(one) for one in scales.view(np.int16))
    stream = pack_operands(Operands(None, None, numbers), low.target.operand_group, channels=align(len(scales), 64))
    return Place(low.data(f"{op.name}_scales", stream, (len(stream) // 2,), DataType.INT16))
