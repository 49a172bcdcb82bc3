"""Convolutions, pools, and what changes the size of pictures."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from openrknn.compiler.importer.formats.tflite.context import Context, Rule
from openrknn.compiler.importer.formats.tflite.schema import Operator

_WORD, _PADDING_SAME = 4, 1
"""Of the C structures; the schema counts from 0."""
_SAME = 0


def same_pads(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """TFLite's SAME: as many results as size / stride rounded up, and the odd pixel at the end."""
    results = -(-size // stride)
    total = max((results - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def _picture(context: Context, op: Operator, number: int = 0) -> int:
    index = context.operand(op, number)
    if context.rank(index) != 4:
        raise context.unsupported(op, f"its input has {context.rank(index)} dimensions, not 4")
    return index


def _pads(context: Context, op: Operator, padding: int, kernel: Sequence[int], strides: Sequence[int],
          dilations: Sequence[int] = (1, 1), number: int = 0) -> list[int]:  # fmt: skip
    if padding != _SAME:
        return [0, 0, 0, 0]
    sizes = context.shape(op.inputs[number])[1:3]
    rows, columns = (same_pads(*entry) for entry in zip(sizes, kernel, strides, dilations, strict=True))
    return [rows[0], columns[0], rows[1], columns[1]]


def _steps(context: Context, op: Operator, *numbers: int) -> list[int]:
    """Strides, dilations or kernel sizes; a damaged file has zeros."""
    if any(not 0 < entry <= 2**20 for entry in numbers):
        raise context.unsupported(op, f"it says {list(numbers)} for a stride, a dilation or a window")
    return list(numbers)


def _convolution(context: Context, op: Operator) -> None:
    options = op.options
    is_depthwise = op.kind == "DEPTHWISE_CONV_2D"
    first = 5 if is_depthwise else 4
    dilations = _steps(context, op, options.number(first + 1, 1), options.number(first, 1))
    strides = _steps(context, op, options.number(2), options.number(1))
    index = _picture(context, op)
    kernel = context.shape(context.operand(op, 1))[1:3]
    pads = _pads(context, op, options.small(0), kernel, strides, dilations)
    source = context.value(index, nchw=True)
    made = convolve(context, op, source, pads, strides, dilations)
    context.put(op, context.activated(made, options.small(4 if is_depthwise else 3), op), nchw=True)


def convolve(
    context: Context, op: Operator, source: str, pads: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> str:
    """CONV_2D or DEPTHWISE_CONV_2D of a picture with its channels in front."""
    filters = context.operand(op, 1)
    shape, channels = context.shape(filters), context.shape(op.inputs[0])[3]
    if len(shape) != 4 or 0 in shape or not channels:
        raise context.unsupported(op, f"its filters have the shape {list(shape)}")
    if op.kind == "DEPTHWISE_CONV_2D":
        group, outputs, depth, order = channels, shape[3], 1, (3, 0, 1, 2)
    else:
        group, outputs, depth, order = max(channels // shape[3], 1), shape[0], shape[3], (0, 3, 1, 2)
    if group * depth != channels or outputs % group:
        raise context.unsupported(op, f"{channels} channels do not fit filters {list(shape)}")
    weights = context.weights(filters, order, (outputs, depth, *shape[1:3]), 0)
    bias = context.bias(context.optional(op, 2), outputs)
    return context.node(
        "Conv", [source, weights, *bias], group=group, kernel_shape=list(shape[1:3]), pads=list(pads),
        strides=list(strides), dilations=list(dilations),
    )  # fmt: skip


def _transposed(context: Context, op: Operator) -> None:
    options = op.options
    filters, index = context.operand(op, 1), _picture(context, op, 2)
    shape, strides = context.shape(filters), _steps(context, op, options.number(2), options.number(1))
    wanted = context.numbers(op, 0)
    if len(shape) != 4 or len(wanted) != 4:
        raise context.unsupported(op, f"its filters have the shape {list(shape)}, its result {wanted}")
    is_same, bias = options.small(0) == _SAME, context.optional(op, 3)
    made = _spread(context, op, index, filters, bias, strides, wanted, is_same=is_same)
    context.put(op, context.activated(made, options.small(3), op), nchw=True)


def _spread(
    context: Context, op: Operator, index: int, filters: int, bias: int, strides: Sequence[int], wanted: Sequence[int],
    *, is_same: bool,
) -> str:  # fmt: skip
    """A transposed convolution whose result has the size `wanted`."""
    shape = context.shape(filters)
    pads, extra = [0, 0, 0, 0], [0, 0]
    for side in (0, 1):
        size, kernel, stride = context.shape(index)[side + 1], shape[side + 1], strides[side]
        total = (size - 1) * stride + kernel - wanted[side + 1]
        begin = max(total, 0) // 2 if is_same else 0
        pads[side], pads[side + 2], extra[side] = begin, max(total - begin, 0), max(begin - total, 0)
    weights = context.weights(filters, (3, 0, 1, 2), (shape[3], shape[0], *shape[1:3]), 1)
    operands = [context.value(index, nchw=True), weights, *context.bias(bias, shape[0])]
    return context.node(
        "ConvTranspose", operands, kernel_shape=list(shape[1:3]), pads=pads, strides=list(strides),
        output_padding=extra,
    )  # fmt: skip


def _transposed_with_bias(context: Context, op: Operator) -> None:
    """MediaPipe's: picture, filters, bias; `TfLiteTransposeConvParams` in its options: padding, columns, rows."""
    filters, index = context.operand(op, 1), _picture(context, op)
    if len(op.custom) < 3 * _WORD or len(context.shape(filters)) != 4 or len(context.shape(op.outputs[0])) != 4:
        raise context.unsupported(op, f"its options have {len(op.custom)} bytes, its filters {context.shape(filters)}")
    padding, columns, rows = struct.unpack_from("<3i", op.custom)
    strides = _steps(context, op, rows, columns)
    is_same = padding == _PADDING_SAME
    wanted = context.shape(op.outputs[0])
    value = _spread(context, op, index, filters, context.optional(op, 2), strides, wanted, is_same=is_same)
    context.put(op, value, nchw=True)


def _pool(context: Context, op: Operator) -> None:
    options = op.options
    strides = _steps(context, op, options.number(2), options.number(1))
    kernel = _steps(context, op, options.number(4), options.number(3))
    source = context.value(_picture(context, op), nchw=True)
    pads = _pads(context, op, options.small(0), kernel, strides)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if op.kind == "MAX_POOL_2D":
        made = context.node("MaxPool", [source], **attributes)
    elif op.kind == "AVERAGE_POOL_2D":  # what lies outside is not counted
        made = context.node("AveragePool", [source], count_include_pad=0, **attributes)
    else:
        squares = context.node("Mul", [source, source])
        made = context.node("Sqrt", [context.node("AveragePool", [squares], count_include_pad=0, **attributes)])
    context.put(op, context.activated(made, options.small(5), op), nchw=True)


def _resize(context: Context, op: Operator) -> None:
    is_linear = op.kind == "RESIZE_BILINEAR"
    first = 2 if is_linear else 0
    corners, centres = op.options.small(first), op.options.small(first + 1)
    index = _picture(context, op)
    height, width = _steps(context, op, *context.numbers(op, 1))
    batch, _, _, channels = context.shape(index)
    size = context.new(np.array([batch, channels, height, width], np.int64), "size")
    made = context.node(
        "Resize", [context.value(index, nchw=True), "", "", size],
        mode="linear" if is_linear else "nearest",
        coordinate_transformation_mode="align_corners" if corners else "half_pixel" if centres else "asymmetric",
        **({} if is_linear else {"nearest_mode": "round_prefer_ceil" if corners or centres else "floor"}),
    )  # fmt: skip
    context.put(op, made, nchw=True)


def _space_to_depth(context: Context, op: Operator) -> None:
    """TFLite's channels are (row, column, channel) of the block, and so are those of ONNX."""
    (block,) = _steps(context, op, op.options.number(0))
    source = context.value(_picture(context, op), nchw=True)
    if op.kind == "SPACE_TO_DEPTH":
        made = context.node("SpaceToDepth", [source], blocksize=block)
    else:
        made = context.node("DepthToSpace", [source], blocksize=block, mode="DCR")
    context.put(op, made, nchw=True)


def _local_response(context: Context, op: Operator) -> None:
    options = op.options
    size = 2 * options.number(0) + 1
    source = context.value(_picture(context, op), nchw=True)
    made = context.node(
        "LRN", [source], size=size, alpha=options.real(2) * size, beta=options.real(3), bias=options.real(1)
    )
    context.put(op, made, nchw=True)


RULES: dict[str, Rule] = {
    "CONV_2D": _convolution,
    "DEPTHWISE_CONV_2D": _convolution,
    "TRANSPOSE_CONV": _transposed,
    "CUSTOM:Convolution2DTransposeBias": _transposed_with_bias,
    "AVERAGE_POOL_2D": _pool,
    "MAX_POOL_2D": _pool,
    "L2_POOL_2D": _pool,
    "RESIZE_BILINEAR": _resize,
    "RESIZE_NEAREST_NEIGHBOR": _resize,
    "SPACE_TO_DEPTH": _space_to_depth,
    "DEPTH_TO_SPACE": _space_to_depth,
    "LOCAL_RESPONSE_NORMALIZATION": _local_response,
}
