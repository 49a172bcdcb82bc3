"""Weights as arrays, in the order of the ONNX model that they came from."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn import numerics
from openrknn.analysis.weights.use import Form, WeightReader, WeightUse, tensor_data
from openrknn.container.compressed import decompressed
from openrknn.container.model import Model, Operator
from openrknn.container.parts import DataType, Quantization, Tensor
from openrknn.errors import UnsupportedError
from openrknn.layout.operands import Use, zero_point_of_byte
from openrknn.layout.weights import (
    WeightTiles,
    image_row_bytes,
    split_zero_points,
    unpack_image_weights,
    unpack_weights,
)
from openrknn.runtime.io.tensors import DTYPES

Array: TypeAlias = npt.NDArray[Any]

_DTYPES = {**DTYPES, DataType.BOOL: np.uint8, DataType.BFLOAT16: np.uint16}
"""As stored in the file: bytes and halves of floats, not what they mean."""
_IMAGE_CHANNELS = 4


def stored_elements(model: Model, tensor: Tensor, use: WeightUse | None = None) -> Array:
    """All elements of a constant in memory order. bfloat16 becomes float32; bytes that make no element are left out.

    Compressed weights need `use`: only the commands that load them tell what they are.
    """
    data = tensor_data(model, tensor)
    if tensor.compressed:
        if use is None:
            raise UnsupportedError(f"{tensor.name!r} is compressed, and no operator was found that loads it")
        tensor, data = use.tensor, decompressed(model.chip, use.tensor, data, use.registers)
    if tensor.dtype is DataType.INT4:
        return numerics.unpack_int4(np.frombuffer(data, np.uint8))
    if tensor.dtype not in _DTYPES:
        raise UnsupportedError(f"{tensor.name!r} holds {tensor.dtype.label}, which is no number")
    dtype = np.dtype(_DTYPES[tensor.dtype])
    elements = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
    return numerics.decode_bf16(elements) if tensor.dtype is DataType.BFLOAT16 else elements


def constant_array(model: Model, tensor: Tensor) -> Array:
    """A constant that has no special layout, in its shape."""
    elements = stored_elements(model, tensor)
    if tensor.shape and tensor.elements <= elements.size:
        return elements[: tensor.elements].reshape(tensor.shape)
    return elements


def weight_array(reader: WeightReader, tensor: Tensor, use: WeightUse | None = None) -> Array:
    """The weights as ONNX has them: [O, I, H, W]; depthwise [C, 1, H, W]; transposed convolutions [I, O, H, W].

    `use` tells which of these it is; without it (constants that the compiler made) the weights are direct ones.
    """
    tensor = use.tensor if use is not None else tensor
    try:
        tiles = WeightTiles.from_native(tensor.native_shape)
        return _logical(_unpacked(reader, tensor, tiles, use), tensor, use.form if use else Form.DIRECT)
    except UnsupportedError as error:
        raise UnsupportedError(f"weights {tensor.name!r}: {error}") from None


def inline_zero_points(reader: WeightReader, use: WeightUse) -> tuple[int, ...]:
    """The zero points that stand between depthwise weights, one per channel."""
    tiles = WeightTiles.from_native(use.tensor.native_shape)
    elements = stored_elements(reader.model, use.tensor, use)
    _, negated = split_zero_points(elements, reader.model.chip.inline_zero_points, tiles.elements)
    per_channel = unpack_weights(negated, tiles)[0, : use.channels, 0, 0]
    return tuple(zero_point_of_byte(int(value)) for value in per_channel)


def bias_array(reader: WeightReader, use: WeightUse) -> Array | None:
    """The bias as it is stored, one number per output channel: float32, or int32 in quantised models."""
    if use.operands is None or Use.BIAS not in use.use:
        return None
    if use.operands.dtype is DataType.FLOAT32:
        stored = stored_elements(reader.model, use.operands)
        if stored.size < use.channels:
            raise UnsupportedError(f"{use.operands.name!r} holds {stored.size} numbers for {use.channels} channels")
        return stored[: use.channels]
    bias = reader.operands(use).bias
    return None if bias is None else np.array(bias, np.int32)


def real_bias(
    reader: WeightReader, operator: Operator, use: WeightUse, weights: Array, quantization: Quantization
) -> Array | None:
    """The bias of a quantised convolution as real numbers, one per output channel.

    Stored is the bias in steps of input scale times weight scale, minus what the input's zero point adds to every
    sum (the padding holds the zero point too, so this is exact at the borders):

        stored = round(bias / (s_in * s_w)) - zp_in * sum over the kernel of (w - zp_w)

    With 4-bit weights the input is not quantised, and stored is bias / s_w.
    """
    stored = bias_array(reader, use)
    source = operator.inputs[0].quantization
    if stored is not None and stored.dtype == np.float32:
        return stored * np.asarray(quantization.scale, np.float32)
    if stored is None or source is None:
        return None
    kernels = np.moveaxis(weights, use.axis, 0).reshape(use.channels, -1).astype(np.int64)
    sums = kernels.sum(axis=1) - kernels.shape[1] * np.asarray(quantization.zero_point, np.int64)
    shift = reader.field(use, reader.facts.accumulator_shift) if reader.facts.accumulator_shift else 0
    steps = np.ldexp(stored.astype(np.float64), shift) + source.zero_point[0] * sums
    real: npt.NDArray[np.float64] = steps * source.scale[0] * np.asarray(quantization.scale)
    with np.errstate(over="ignore", under="ignore"):
        return real.astype(np.float32)


def _unpacked(reader: WeightReader, tensor: Tensor, tiles: WeightTiles, use: WeightUse | None) -> Array:
    elements = stored_elements(reader.model, tensor, use)
    if use is not None and reader.inlines_zero_points(use):
        weights, _ = split_zero_points(elements, reader.model.chip.inline_zero_points, tiles.elements)
        return unpack_weights(weights, tiles)
    if _has_image_rows(reader, tensor, tiles, elements.size):
        return unpack_image_weights(elements, tiles)
    return unpack_weights(elements, tiles)


def _has_image_rows(reader: WeightReader, tensor: Tensor, tiles: WeightTiles, elements: int) -> bool:
    """The length tells: the same tiles in the usual order are shorter."""
    kernels, channels, height, _ = tiles.shape
    return (
        reader.model.chip.family == "rk3576"
        and tensor.dtype is DataType.INT8
        and channels <= _IMAGE_CHANNELS
        and elements == 2 * kernels * height * image_row_bytes(tiles) != tiles.elements
    )


def _logical(padded: Array, tensor: Tensor, form: Form) -> Array:
    if len(tensor.shape) != padded.ndim:
        raise UnsupportedError(f"the shape {list(tensor.shape)} has not four dimensions")
    first, second, *kernel = tensor.shape
    if form is Form.DIRECT and first > padded.shape[0] == second == 1:
        padded = padded.transpose(1, 0, 2, 3)  # the compiler's own depthwise weights have ONNX's shape already
    outputs, inputs = (second, first) if form is Form.TRANSPOSED else (first, second)
    if outputs > padded.shape[0] or inputs > padded.shape[1] or list(padded.shape[2:]) != kernel:
        raise UnsupportedError(f"the shape {list(tensor.shape)} is not in its tiles of {list(padded.shape)}")
    weights = padded[:outputs, :inputs]
    match form:
        case Form.TRANSPOSED:
            return np.ascontiguousarray(weights.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1])
        case Form.DEPTHWISE:
            return np.ascontiguousarray(weights.transpose(1, 0, 2, 3))
        case _:
            return np.ascontiguousarray(weights)
