"""Stored elements as real numbers, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn import numerics
from openrknn.container.model import Model, Operator
from openrknn.container.parts import Layout, Tensor
from openrknn.errors import UnsupportedError
from openrknn.runtime.io.tensors import Array

_CUTTING_FORMAT = 1


def decode(stored: Array, tensor: Tensor, dtype: type[np.floating[Any]] = np.float32) -> Array:
    """Stored elements as real numbers; integers that are not quantized stay as they are."""
    quantization = tensor.quantization
    if quantization is not None and stored.dtype.kind in "iu" and len(quantization.scale) == 1:
        real = np.subtract(stored, quantization.zero_point[0], dtype=dtype)
        real *= dtype(np.float32(quantization.scale[0]))
        return real
    return stored.astype(dtype) if stored.dtype.kind == "f" else stored


def encode(values: Array, tensor: Tensor, dtype: np.dtype[Any], *, cut: bool = False) -> Array:
    """The other way round; the zero point is added before rounding, as in the vendor's runtime 1.5.2 (ties tell).

    What was computed in single precision as it does is multiplied by 1 / scale and added in one step, as it does.
    `cut` leaves the fraction out instead of rounding, towards zero: see `cuts_fractions`.
    """
    if tensor.quantization is not None and dtype.kind in "iu":
        scale, zero_point = np.float32(tensor.quantization.scale[0]), tensor.quantization.zero_point[0]
        steps: Array
        if cut:
            values = values.astype(np.float32)
        if values.dtype == np.float32:
            steps = (values.astype(np.float64) * (np.float32(1) / scale) + zero_point).astype(np.float32)
        else:
            steps = np.asarray(values, np.float64) / scale + zero_point
        whole = np.trunc(steps) if cut else steps
        return numerics.saturate(numerics.round_to_integer(whole), dtype.type)
    if dtype == np.float16:
        return numerics.encode_fp16(values).view(np.float16)
    with np.errstate(invalid="ignore"):  # NaN and what is too large for an integer: some number, as in C
        return values.astype(dtype)


def cuts_fractions(model: Model, tensor: Tensor) -> bool:
    """Whether a result of the CPU loses its fraction in this tensor instead of being rounded.

    Runtime 1.5.2 does so with int8 results that it computes in floats and stores in atoms of channels (NC1HWC2), and
    rounds in other layouts. A board showed the same with a file of model format 1. Newer files have newer runtimes,
    and the simulator, the only witness for those, rounds.
    """
    return model.format_version == _CUTTING_FORMAT and tensor.layout is Layout.NC1HWC2


def decode_constant(stored: Array, tensor: Tensor, operator: Operator) -> Array:
    """A constant as real numbers: quantized ones have a scale of their own, or one for each output channel."""
    quantization = tensor.quantization
    if quantization is None or stored.dtype.kind not in "iu":
        return stored
    scale = np.asarray(quantization.scale, np.float64)
    if scale.size == 1:
        return decode(stored, tensor, np.float64)
    axis = 1 if operator.type == "ConvTranspose" and stored.ndim > 1 else 0
    if stored.ndim <= axis or stored.shape[axis] != scale.size:
        raise UnsupportedError(f"constant {tensor.name!r} has {scale.size} scales for {list(stored.shape)}")
    column = (-1, *(1,) * (stored.ndim - axis - 1))
    zero_point = np.asarray(quantization.zero_point).reshape(column)
    return np.asarray((stored - zero_point) * scale.reshape(column), np.float64)
