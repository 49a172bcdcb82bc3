"""Values at numbered places, and the numbers of places: Gather, Scatter, OneHot, Compress, ArgMax, ArgMin and TopK."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import (
    Array,
    Attributes,
    Inputs,
    Shape,
    axis_of,
    bounded,
    fitting,
    integer,
    optional,
    text,
)

_REDUCTIONS = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _places(indices: Array, size: int) -> Array:
    """Whole numbers from the front; those before -size or behind the end are refused, not wrapped."""
    numbers = np.asarray(indices).astype(np.int64)
    if numbers.size and not -size <= int(numbers.min()) <= int(numbers.max()) < size:
        raise UnsupportedError(f"an index from {numbers.min()} to {numbers.max()} into {size} values")
    return np.where(numbers < 0, numbers + size, numbers)


def gather(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Whole slices along one axis."""
    data, indices = inputs[0], inputs[1]
    axis = axis_of(integer(attributes, "axis", 0), data.ndim)
    fitting((*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]), shape)
    return np.take(data, _places(indices, data.shape[axis]), axis=axis)


def gather_elements(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """y[i, j] = x[index[i, j], j] for axis 0."""
    data, indices = inputs[0], inputs[1]
    axis = axis_of(integer(attributes, "axis", 0), data.ndim)
    fitting(indices.shape, shape)
    grid = _grid(indices.shape, data.shape, axis)
    grid[axis] = _places(indices, data.shape[axis])
    return np.asarray(data[tuple(grid)])


def gather_nd(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The last axis of the indices names a slice; the first `batch_dims` axes belong together."""
    data, indices = inputs[0], inputs[1]
    batches, depth, lead = _tuples(data, indices, integer(attributes, "batch_dims", 0))
    rest = data.shape[batches + depth :]
    fitting((*indices.shape[:-1], *rest), shape)
    table = data.reshape(lead, *data.shape[batches:])
    rows = indices.reshape(lead, -1, depth)
    places = [_places(rows[..., k], table.shape[k + 1]) for k in range(depth)]
    picked = table[(np.arange(lead)[:, None], *places)]
    return np.asarray(picked).reshape(*indices.shape[:-1], *rest)


def scatter_nd(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """A copy of the data with some slices replaced, or added to, by the updates."""
    data, indices, updates = inputs[:3]
    _, depth, _ = _tuples(data, indices, 0)
    fitting(data.shape, shape)
    rows = indices.reshape(-1, depth)
    places = tuple(_places(rows[:, k], data.shape[k]) for k in range(depth))
    return _put(data, places, updates.reshape(len(rows), *data.shape[depth:]), attributes)


def scatter_elements(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """y = x, then y[index[i, j], j] = update[i, j] for axis 0."""
    data, indices, updates = inputs[:3]
    axis = axis_of(integer(attributes, "axis", 0), data.ndim)
    fitting(data.shape, shape)
    grid = _grid(indices.shape, data.shape, axis)
    grid[axis] = _places(indices, data.shape[axis])
    return _put(data, tuple(grid), updates.reshape(indices.shape), attributes)


def _put(data: Array, places: tuple[Array, ...], updates: Array, attributes: Attributes) -> Array:
    word = text(attributes, "reduction", "none")
    if word not in _REDUCTIONS:
        raise UnsupportedError(f"a reduction called {word!r}")
    combine = _REDUCTIONS[word]
    result = data.astype(np.result_type(data, updates))
    if combine is None:
        result[places] = updates
    else:
        combine.at(result, places, updates)
    return result


def _grid(shape: Shape, data: Shape, axis: int) -> list[Array]:
    """The numbers of all elements along each axis, as `np.ix_` makes them."""
    if len(shape) != len(data) or any(s > d for k, (s, d) in enumerate(zip(shape, data, strict=True)) if k != axis):
        raise UnsupportedError(f"indices of {list(shape)} into {list(data)}")
    return list(np.ogrid[tuple(slice(size) for size in shape)])


def _tuples(data: Array, indices: Array, batches: int) -> tuple[int, int, int]:
    """Axes that belong together, numbers of a tuple, and tuples of the first kind of axes."""
    depth = indices.shape[-1] if indices.ndim else 0
    if not 0 <= batches < max(indices.ndim, 1) or not 1 <= depth <= data.ndim - batches:
        raise UnsupportedError(f"indices of {list(indices.shape)} into {list(data.shape)}, {batches} axes in common")
    if data.shape[:batches] != indices.shape[:batches]:
        raise UnsupportedError(f"indices of {list(indices.shape)} do not go along with {list(data.shape)}")
    return batches, depth, prod(data.shape[:batches])


def one_hot(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """`values[1]` where the new axis has the number of the index, else `values[0]`; other indices are nowhere."""
    indices, depth, values = inputs[0].astype(np.int64), int(inputs[1].reshape(-1)[0]), inputs[2].reshape(-1)
    axis = axis_of(integer(attributes, "axis", -1), indices.ndim + 1)
    fitting((*indices.shape[:axis], depth, *indices.shape[axis:]), shape)
    bounded(indices.size, depth)
    ladder = np.arange(depth).reshape(-1, *(1,) * (indices.ndim - axis))
    wrapped = np.where((indices < 0) & (indices >= -depth), indices + depth, indices)
    return np.asarray(np.where(np.expand_dims(wrapped, axis) == ladder, values[1], values[0]))


def compress(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The slices whose condition is true."""
    data, wanted = inputs[0], inputs[1].reshape(-1) != 0
    if optional(inputs, 1) is None or attributes.get("axis") is None:
        return np.asarray(np.compress(wanted, data.reshape(-1)))
    return np.asarray(np.compress(wanted, data, axis=axis_of(integer(attributes, "axis", 0), data.ndim)))


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
