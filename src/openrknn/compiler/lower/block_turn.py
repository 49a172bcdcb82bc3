"""Blocks of channels, each multiplied by the same matrix."""

from __future__ import annotations

from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.forms import BlockTurn
from openrknn.compiler.ir import Op
from openrknn.compiler.lower.context import Lowering
from openrknn.compiler.lower.pointwise import Line, line_pixels, matrix_place, pointwise_task


def lower_block_turn(low: Lowering, op: Op) -> None:
    """Surfaces that are far apart as the channels of a pixel: the map is read as one of more pixels, and so written."""
    source, target, order = low.tensor(op.inputs[0]), low.tensor(op.output), op.get(BlockTurn).order
    channels, *sides = source.cube
    tokens, atom = sides[0] * sides[1], low.target.atom_bytes
    if channels % order or order % low.target.fp16.group or {source.pitch, target.pitch} != {tokens}:
        raise UnsupportedOperatorError(f"{op.name!r}: {source.cube} in blocks of {order} channels are not whole maps")
    pixels = channels // order * tokens
    step = low.step(op, "exMatMul", inputs=[op.inputs[0]], outputs=[op.output])
    step.macs = order * channels * tokens
    matrix = matrix_place(low, f"{op.name}_turn", low.graph.constants[op.inputs[1]])
    step.inputs.append(matrix.tensor)
    read, made = Line(source.at(), pixels, order, atom), Line(target.at(), pixels, order, atom)
    for first, count in line_pixels(low.target, order, pixels):
        low.add(step, pointwise_task(low.target, read.at(first), made.at(first), count, matrix))
