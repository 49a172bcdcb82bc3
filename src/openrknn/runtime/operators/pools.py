"""AveragePool, MaxPool, LpPool, pools over whole planes, and MaxUnpool."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import Array, Attributes, Inputs, Shape, fitting, integer, integers, text
from openrknn.runtime.operators.windows import Windows, gather_windows, windows_of


def max_pool(inputs: Inputs, attributes: Attributes, shapes: Sequence[Shape]) -> Sequence[Array]:
    """The largest value under each window, and its number in the whole input, counted row by row."""
    x = inputs[0]
    shape = shapes[0]
    fitting((*x.shape[:2], *shape[2:]), shape)
    windows = windows_of(attributes, x.shape[2:], integers(attributes, "kernel_shape", ()), shape[2:])
    whole = x.dtype.kind in "iu"
    least = np.iinfo(x.dtype).min if whole else -np.inf
    largest = np.full(shape, least, x.dtype)
    found = np.zeros(shape, np.int64)
    numbers = _numbers(x.shape, column_major=bool(integer(attributes, "storage_order", 0)))
    for plane, number in zip(gather_windows(x, windows, least), gather_windows(numbers, windows, -1), strict=True):
        better = (plane > largest) & (number >= 0)
        largest, found = np.where(better, plane, largest), np.where(better, number, found)
    return largest, found


def _numbers(shape: Shape, *, column_major: bool) -> Array:
    """The number of each element."""
    if not column_major:
        return np.arange(prod(shape)).reshape(shape)
    turned = np.arange(prod(shape)).reshape(*shape[:2], *reversed(shape[2:]))
    return turned.transpose(0, 1, *range(len(shape) - 1, 1, -1))


def lp_pool(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The p-norm of what is under each window."""
    x, power = np.asarray(inputs[0], np.float64), integer(attributes, "p", 2)
    if power < 1:
        raise UnsupportedError(f"a norm of order {power}")
    windows = windows_of(attributes, x.shape[2:], integers(attributes, "kernel_shape", ()), shape[2:])
    total = np.zeros((*x.shape[:2], *shape[2:]))
    for plane in gather_windows(x, windows, 0):
        total += np.abs(plane) ** power
    return np.asarray(total ** (1 / power))


def global_average(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The mean of each plane."""
    x = inputs[0]
    return np.asarray(x.mean(axis=tuple(range(2, x.ndim)), keepdims=True, dtype=np.float64))


def global_max(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The largest value of each plane."""
    x = inputs[0]
    return np.asarray(x.max(axis=tuple(range(2, x.ndim)), keepdims=True))


def global_lp(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The p-norm of each plane."""
    x, power = np.asarray(inputs[0], np.float64), integer(attributes, "p", 2)
    if power < 1:
        raise UnsupportedError(f"a norm of order {power}")
    return np.asarray((np.abs(x) ** power).sum(axis=tuple(range(2, x.ndim)), keepdims=True) ** (1 / power))


def max_unpool(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Values back to where MaxPool found them, the rest 0.

    The numbers are those of a plane without padding; where the output is larger than that, they still count in the
    smaller one.
    """
    x, places = inputs[0], inputs[1].astype(np.int64).reshape(-1)
    size = _smallest(x.shape, attributes)
    if places.size != x.size or (places.size and not 0 <= int(places.min()) <= int(places.max()) < prod(size)):
        raise UnsupportedError(f"{places.size} numbers of places in {list(size)} for {list(x.shape)}")
    if len(size) != len(shape) or any(small > large for small, large in zip(size, shape, strict=True)):
        raise UnsupportedError(f"{list(size)} comes out, where the file has {list(shape)}")
    plane = np.zeros(prod(size), x.dtype)
    plane[places] = x.reshape(-1)
    result = np.zeros(shape, x.dtype)
    result[tuple(slice(side) for side in size)] = plane.reshape(size)
    return result


def _smallest(shape: Shape, attributes: Attributes) -> Shape:
    """(n - 1) * stride + kernel - pads, along each axis of the plane."""
    count = len(shape) - 2
    kernel = integers(attributes, "kernel_shape", ())
    strides = integers(attributes, "strides", ()) or (1,) * count
    pads = integers(attributes, "pads", ()) or (0,) * 2 * count
    if (len(kernel), len(strides), len(pads)) != (count, count, 2 * count):
        raise UnsupportedError(f"a kernel of {list(kernel)} on {list(shape)}")
    sides = [(shape[k + 2] - 1) * strides[k] + kernel[k] - pads[k] - pads[k + count] for k in range(count)]
    if min(sides, default=0) < 1:
        raise UnsupportedError(f"planes of {sides}")
    return (*shape[:2], *sides)


def average_pool(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The mean of each window: sum / number of elements, of which padding counts with count_include_pad."""
    values = np.asarray(inputs[0], np.float64)
    kernel = integers(attributes, "kernel_shape", ())
    if values.ndim != len(kernel) + 2 or not kernel:
        raise UnsupportedError(f"AveragePool with a kernel of {len(kernel)} dimensions on {values.ndim} dimensions")
    windows = windows_of(attributes, values.shape[2:], kernel, shape[2:])
    total = np.zeros((*values.shape[:2], *shape[2:]))
    for plane in gather_windows(values, windows, 0):
        total += plane
    with np.errstate(all="ignore"):  # a window that sees only padding
        return np.asarray(total / _counted(attributes, windows))


def _counted(attributes: Attributes, windows: Windows) -> Array:
    """How many elements of each window count: padding if asked for, what ceil_mode adds never."""
    counts: Array = np.ones(())
    padded_by_itself = text(attributes, "auto_pad", "NOTSET").startswith("SAME")
    stated = integers(attributes, "pads", ()) or (0,) * 2 * len(windows.size)
    for axis, size in enumerate(windows.size):
        after = stated[len(windows.size) + axis]
        places = (
            np.arange(windows.wanted[axis])[:, None] * windows.strides[axis]
            - windows.before[axis]
            + np.arange(windows.kernel[axis]) * windows.dilations[axis]
        )
        inside = (places >= 0) & (places < size)
        if integer(attributes, "count_include_pad", 0):
            inside = places < (places.max() + 1 if padded_by_itself else size + after)
        counts = counts[..., None] * inside.sum(axis=1)
    return counts
