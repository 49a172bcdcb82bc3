"""Operators whose result follows from sizes alone, or counts: Shape, Size, Range, ConstantOfShape, EyeLike, CumSum."""

from __future__ import annotations

from math import prod

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import Array, Attributes, Inputs, Shape, axis_of, bounded, fitting, integer


def shape_(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The input's sizes, from `start` to `end`."""
    sizes = inputs[0].shape
    return np.array(sizes[integer(attributes, "start", 0) : integer(attributes, "end", len(sizes))], np.int64)


def size(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The number of the input's elements."""
    return np.array(inputs[0].size, np.int64)


def range_(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """start, start + step, ... up to the limit."""
    start, limit, step = (array.reshape(-1)[0] for array in inputs[:3])
    count = max(0, int(np.ceil((float(limit) - float(start)) / float(step)))) if float(step) else -1
    fitting((count,), shape)
    return np.asarray(start + np.arange(count) * step)


def constant(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The number or the numbers that the attributes hold."""
    for name in ("value_float", "value_int", "value_floats", "value_ints", "value"):
        if attributes.get(name) is not None:
            return np.asarray(attributes[name]).reshape(shape)
    raise UnsupportedError("the file does not say which constant it is")


def constant_of_shape(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """One value everywhere; 0 where the file has none."""
    value = np.asarray(attributes.get("value", 0)).reshape(-1)
    bounded(prod(shape))
    return np.full(shape, value[0] if value.size else 0)


def eye_like(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """1 on a diagonal, else 0."""
    if len(inputs[0].shape) != 2:
        raise UnsupportedError(f"{list(inputs[0].shape)} is no matrix")
    rows, columns = inputs[0].shape
    diagonal = max(-rows, min(integer(attributes, "k", 0), columns))
    return np.eye(rows, columns, diagonal)


def non_zero(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Where the values are not 0, one row for each axis; the output's size has to be what the file says."""
    return np.stack(np.nonzero(inputs[0])).astype(np.int64)


def cum_sum(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Running sums along an axis, without the element itself if `exclusive`, from the end if `reverse`."""
    axis = axis_of(int(inputs[1].reshape(-1)[0]), inputs[0].ndim)
    x = np.flip(inputs[0], axis) if integer(attributes, "reverse", 0) else inputs[0]
    total = np.cumsum(x, axis=axis) - (x if integer(attributes, "exclusive", 0) else 0)
    return np.flip(total, axis) if integer(attributes, "reverse", 0) else total
