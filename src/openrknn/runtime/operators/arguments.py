"""ArgMax, ArgMin and TopK: where the largest or smallest values along an axis are, as int64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import Array, Attributes, Inputs, Shape, axis_of, integer

__all__ = ["arg_max", "arg_min", "top_k"]


def arg_max(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The first of several equal values, or the last with select_last_index."""
    return _pick(inputs[0], attributes, largest=True).reshape(shape)


def arg_min(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Index of the smallest value; ties as in `arg_max`."""
    return _pick(inputs[0], attributes, largest=False).reshape(shape)


def _pick(values: Array, attributes: Attributes, *, largest: bool) -> Array:
    axis = integer(attributes, "axis", 0)
    find = np.argmax if largest else np.argmin
    if not integer(attributes, "select_last_index", 0):
        return np.asarray(find(values, axis=axis), np.int64)
    return np.asarray(values.shape[axis] - 1 - find(np.flip(values, axis), axis=axis), np.int64)


def top_k(inputs: Inputs, attributes: Attributes, shapes: Sequence[Shape]) -> Sequence[Array]:
    """The k largest values (or smallest) and their numbers; of equal ones the first, always sorted.

    ONNX leaves the order open where `sorted` is 0; sorted is one of the orders that it allows.
    """
    values = inputs[0]
    count = int(inputs[1].reshape(-1)[0]) if len(inputs) > 1 else integer(attributes, "k", -1)
    axis = axis_of(integer(attributes, "axis", -1), values.ndim)
    if not 0 <= count <= values.shape[axis]:
        raise UnsupportedError(f"{count} of {values.shape[axis]} values")
    signed = values.astype(np.float64) if values.dtype.kind == "u" else values
    order = np.argsort(-signed if integer(attributes, "largest", 1) else signed, axis=axis, kind="stable")
    order = np.take(order, range(count), axis=axis)
    return np.take_along_axis(values, order, axis=axis), order.astype(np.int64)
