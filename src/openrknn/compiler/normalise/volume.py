"""Kernels that are larger than any that the vendor's converter emits are cut into halves of the input channels.

Whether the limit is the hardware's is not known; the cut costs an int8 rounding of the first half's sum, so it can be
disabled by users who can test on a board.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from openrknn.compiler.formats import align
from openrknn.compiler.forms import Activation, Conv, Slice
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import replace_op

_PICTURE = (1, 3, 4)


def cut_volumes(graph: Graph, limit: int, atom: int) -> None:
    """Convolutions with channels x kernel rows x kernel columns (with dilation) above the limit, until none is left."""
    waiting = [op for op in graph.ops if op.type == "Conv"]
    while waiting:
        op = waiting.pop()
        if _volume(graph, op) > limit and graph.shape(op.inputs[0])[1] > atom:
            waiting += _cut(graph, op, atom)


def _volume(graph: Graph, op: Op) -> int:
    conv = op.get(Conv)
    if conv.group != 1 or (op.inputs[0] in graph.inputs and graph.shape(op.inputs[0])[1] in _PICTURE):
        return 0
    rows, columns = ((size - 1) * gap + 1 for size, gap in zip(conv.kernel, conv.dilations, strict=True))
    return graph.shape(op.inputs[0])[1] * rows * columns


def _cut(graph: Graph, op: Op, atom: int) -> list[Op]:
    source = op.inputs[0]
    channels, height, width = graph.values[source].cube
    weight = graph.constants[op.inputs[1]]
    cube = (channels, height, width)
    half = align(channels // 2, atom)
    shape = (height, width) if len(graph.shape(source)) == 4 else (width,) if height == 1 and width > 1 else ()
    parts = [graph.add_value(f"{op.output}_{name}", (1, count, *shape))
             for name, count in (("first", half), ("second", channels - half))]  # fmt: skip
    for name, start in zip(parts, (0, half), strict=True):
        count = graph.values[name].cube[0]
        graph.derived[name] = (source, partial(_channels, start=start, count=count, cube=cube))
    out_shape = graph.shape(op.output)
    total = graph.add_value(f"{op.output}_sum", out_shape)
    conv = op.get(Conv)
    window = Conv(conv.kernel, conv.strides, conv.dilations, conv.pads, conv.group)
    graph.derived[total] = (source, partial(float_convolution, weight=weight[:, :half], conv=window,
                                            size=graph.values[op.output].cube[1:], cube=cube))  # fmt: skip
    graph.partial[total] = op.output
    zero = graph.add_constant(f"{total}_zero", np.zeros(len(weight)))
    first = Op("Conv", f"{op.name}_first", [parts[0], graph.add_constant(f"{total}_w", weight[:, :half]), zero],
               [total], {}, op.fused, window)  # fmt: skip
    if len(op.inputs) > 3:
        first.inputs.append(op.inputs[3])
        graph.addends[total] = op.inputs[3]
    activation = conv.activation
    is_relu = activation == Activation("relu")
    target = op.output
    tail: list[Op] = []
    if activation is not None and not is_relu:
        target = graph.add_value(f"{op.output}_linear", out_shape)
        graph.derived[target] = (source, partial(float_convolution, weight=weight, conv=window,
                                                 size=graph.values[op.output].cube[1:],
                                                 bias=graph.constants[op.inputs[2]], cube=cube))  # fmt: skip
        graph.partial[target] = op.output
        if len(op.inputs) > 3:
            graph.addends[target] = op.inputs[3]
        tail = [Op("Activation", f"{op.name}_act", [target], [op.output], {}, op.fused, activation)]
    second = Op(
        "Conv", op.name,
        [parts[1], graph.add_constant(f"{target}_w", weight[:, half:]), op.inputs[2], total], [target], {},
        op.fused, replace(window, post_relu=is_relu or conv.post_relu),
    )  # fmt: skip
    slices = [
        Op("Slice", f"{op.name}:{name}", [source], [name], {}, op.fused, Slice(start))
        for name, start in zip(parts, (0, half), strict=True)
    ]
    replace_op(graph, op, *slices, first, second, *tail)
    return [first, second]


def _channels(values: Array, start: int, count: int, cube: tuple[int, int, int]) -> Array:
    fits = values.size == cube[0] * cube[1] * cube[2]  # not so if a concatenation was padded: any range will do
    return values.reshape(1, *cube)[:, start : start + count] if fits else values


def float_convolution(
    values: Array, weight: Array, conv: Conv, size: tuple[int, int], cube: tuple[int, int, int],
    bias: Array | None = None,
) -> Array:
    """What a convolution over the first channels gives, in float: for the range of sums that ONNX does not have."""
    kernel, strides, dilations = conv.kernel, conv.strides, conv.dilations
    top, left = conv.pads[:2]
    if values.size != cube[0] * cube[1] * cube[2]:
        return values
    plane = values.reshape(cube)[: weight.shape[1]]
    reach = [(out - 1) * step + (taps - 1) * gap + 1
             for out, step, taps, gap in zip(size, strides, kernel, dilations, strict=True)]  # fmt: skip
    room = [max(n, m + p) for n, m, p in zip(reach, plane.shape[1:], (top, left), strict=True)]
    padded = np.zeros((len(plane), *room), np.float32)
    padded[:, top : top + plane.shape[1], left : left + plane.shape[2]] = plane
    total = np.zeros((len(weight), *size), np.float32)
    taps = np.ascontiguousarray(weight.transpose(2, 3, 0, 1), np.float32)
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            y, x = row * dilations[0], column * dilations[1]
            window = padded[:, y : y + (size[0] - 1) * strides[0] + 1 : strides[0],
                            x : x + (size[1] - 1) * strides[1] + 1 : strides[1]]  # fmt: skip
            total += np.tensordot(taps[row, column], window, 1)
    if bias is not None:
        total += bias[:, None, None].astype(np.float32)
    return total[None]
