"""Cast and what else changes only how a number is stored: the output's type, scale and zero point do the rest."""

from __future__ import annotations

import numpy as np

from openrknn.runtime.operators.interface import Array, Attributes, Inputs, Shape, axis_of, integer, optional

_TO_BOOL = 9
_WHOLE = frozenset({2, 3, 4, 5, 6, 7, 12, 13})
"""ONNX's numbers of the integer types."""


def cast(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """To a truth value: is it not 0; to an integer: towards zero."""
    x, to = inputs[0], integer(attributes, "to", 1)
    if to == _TO_BOOL:
        return np.asarray(x != 0)
    return np.trunc(x) if to in _WHOLE and x.dtype.kind == "f" else x


def quantize(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """round(x / scale) + zero point, halves to even, saturated to the zero point's type (uint8 without one)."""
    x, scale, zero = inputs[0], _along(inputs[1], inputs[0], attributes), optional(inputs, 2)
    whole = zero is not None and zero.dtype.kind in "iu"
    limits = np.iinfo(zero.dtype if zero is not None and whole else np.uint8)
    offset = np.zeros(()) if zero is None else _along(zero, x, attributes)
    return np.asarray(np.clip(np.rint(x / scale) + offset, limits.min, limits.max))


def dequantize(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """(q - zero point) * scale."""
    x, zero = inputs[0].astype(np.float64), optional(inputs, 2)
    shifted = x if zero is None else x - _along(zero, x, attributes)
    return np.asarray(shifted * _along(inputs[1], x, attributes))


def _along(values: Array, x: Array, attributes: Attributes) -> Array:
    """One number, or one per entry of an axis."""
    numbers = np.asarray(values, np.float64)
    if numbers.size == 1:
        return numbers.reshape(())
    axis = axis_of(integer(attributes, "axis", 1), x.ndim)
    return numbers.reshape(-1, *(1,) * (x.ndim - axis - 1))


def log_softmax(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """x - max - log(sum(e^(x - max))) along `axis`."""
    x = np.asarray(inputs[0], np.float64)
    axis = axis_of(integer(attributes, "axis", -1), x.ndim)
    small = x - x.max(axis=axis, keepdims=True)
    return np.asarray(small - np.log(np.exp(small).sum(axis=axis, keepdims=True)))
