"""Resize: nearest, linear and cubic, one axis after the other, with all of ONNX's ways to place the pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import (
    Array,
    Attributes,
    Inputs,
    Shape,
    axis_of,
    fitting,
    integer,
    integers,
    number,
    optional,
    text,
)

_ROI, _SCALES = 1, 2


@dataclass(frozen=True, slots=True)
class _Axis:
    """How one axis grows."""

    size: int
    wanted: int
    scale: float
    start: float = 0.0
    end: float = 1.0


def resize(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The output's size is in `shape`; scales say where its pixels lie, and follow from the sizes where none are given.

    The compiler writes a placeholder for an optional input that is not there, so only scales of the right length count.
    """
    x = inputs[0]
    if len(shape) != x.ndim or not x.size:
        raise UnsupportedError(f"{list(x.shape)} is not resized to {list(shape)}")
    if integer(attributes, "antialias", 0):
        raise UnsupportedError("antialias is not implemented")
    axes = [axis_of(axis, x.ndim) for axis in integers(attributes, "axes", range(x.ndim))]
    scales, region = _vector(inputs, _SCALES, [1.0] * x.ndim, axes), _region(inputs, x.ndim, axes)
    outside = np.zeros(shape, bool) if text(attributes, _MODE, "") == _CROP else None
    result = x.astype(np.float64) if text(attributes, "mode", "nearest") != "nearest" else x
    for axis in range(x.ndim):
        start, end = float(region[0][axis]), float(region[1][axis])
        scale = float(scales[axis]) if scales is not None else shape[axis] / x.shape[axis]
        along = _Axis(x.shape[axis], shape[axis], scale, start, end)
        if along.size == along.wanted and scale == 1 and (start, end) == (0, 1):
            continue
        places = _places(along, attributes)
        if outside is not None:
            beyond = (places < 0) | (places > along.size - 1)
            outside |= beyond.reshape(-1, *(1,) * (x.ndim - axis - 1))
        result = _resample(result, axis, along, places, attributes)
    fitting(result.shape, shape)
    if outside is not None:
        return np.where(outside, number(attributes, "extrapolation_value", 0.0), result)
    return result


_MODE, _CROP = "coordinate_transformation_mode", "tf_crop_and_resize"


def upsample(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Resize of opset 9: scales are the second input or an attribute, pixels begin at the left edge."""
    given = attributes.get("scales")
    scales = np.asarray(given, np.float64) if given is not None else inputs[1]
    words = {_MODE: "asymmetric", "nearest_mode": "floor", "mode": text(attributes, "mode", "nearest")}
    return resize([inputs[0], np.empty(0), scales], words, shape)


def _vector(inputs: Inputs, index: int, default: list[float], axes: list[int]) -> Array | None:
    """One number for each of `axes`, the default for the others; None where there is no such input."""
    given = optional(inputs, index)
    if given is None or given.size != len(axes):
        return None
    numbers = np.array(default)
    numbers[axes] = given.reshape(-1)
    return numbers


def _region(inputs: Inputs, rank: int, axes: list[int]) -> tuple[Array, Array]:
    """Where the part to resize begins and ends, 0 to 1."""
    begin, end = np.zeros(rank), np.ones(rank)
    given = optional(inputs, _ROI)
    if given is not None and given.size == 2 * len(axes):
        begin[axes], end[axes] = np.split(given.reshape(-1), 2)
    return begin, end


def _places(axis: _Axis, attributes: Attributes) -> Array:
    """Position of each output pixel in the input."""
    mode = text(attributes, _MODE, "half_pixel")
    x = np.arange(axis.wanted, dtype=np.float64)
    if axis.scale <= 0:
        raise UnsupportedError(f"a scale of {axis.scale}")
    match mode:
        case "half_pixel":
            return (x + 0.5) / axis.scale - 0.5
        case "half_pixel_symmetric":
            # The centre stays where it is although the output was rounded to whole pixels.
            adjustment = axis.wanted / (axis.scale * axis.size)
            return axis.size / 2 * (1 - adjustment) + (x + 0.5) / axis.scale - 0.5
        case "pytorch_half_pixel":
            return (x + 0.5) / axis.scale - 0.5 if axis.wanted > 1 else x * 0
        case "asymmetric":
            return x / axis.scale
        case "tf_half_pixel_for_nn":
            return (x + 0.5) / axis.scale
        case "align_corners":
            # Corners also meet where scales make no whole number of pixels, as in the vendor's simulator.
            return x * ((axis.size - 1) / (axis.wanted - 1)) if axis.wanted > 1 else x * 0
        case "tf_crop_and_resize":
            if axis.wanted > 1:
                return axis.start * (axis.size - 1) + x * (axis.end - axis.start) * (axis.size - 1) / (axis.wanted - 1)
            return x * 0 + 0.5 * (axis.start + axis.end) * (axis.size - 1)
        case _:
            raise UnsupportedError(f"{_MODE} {mode!r}")


def _resample(x: Array, axis: int, along: _Axis, places: Array, attributes: Attributes) -> Array:
    mode = text(attributes, "mode", "nearest")
    if mode == "nearest":
        nearest = _nearest(places, text(attributes, "nearest_mode", "round_prefer_floor"))
        return np.take(x, np.clip(nearest, 0, along.size - 1), axis=axis)
    if mode not in {"linear", "bilinear", "cubic"}:
        raise UnsupportedError(f"mode {mode!r}")
    first, weights = _cubic(places, attributes) if mode == "cubic" else _linear(places)
    if integer(attributes, "exclude_outside", 0):
        taps = first[:, None] + np.arange(weights.shape[1])
        weights = np.where((taps < 0) | (taps >= along.size), 0, weights)
        weights = weights / weights.sum(axis=1, keepdims=True)
    total = 0
    for tap in range(weights.shape[1]):
        column = weights[:, tap].reshape(-1, *(1,) * (x.ndim - axis - 1))
        total = total + np.take(x, np.clip(first + tap, 0, along.size - 1), axis=axis) * column
    return np.asarray(total)


def _nearest(places: Array, mode: str) -> Array:
    match mode:
        case "floor":
            rounded = np.floor(places)
        case "ceil":
            rounded = np.ceil(places)
        case "round_prefer_ceil":
            rounded = np.floor(places + 0.5)
        case "round_prefer_floor" | "simple":
            rounded = np.ceil(places - 0.5)
        case _:
            raise UnsupportedError(f"nearest_mode {mode!r}")
    return np.clip(rounded, -1, 2**31).astype(np.int64)


def _linear(places: Array) -> tuple[Array, Array]:
    first = np.floor(places)
    rest = places - first
    return first.astype(np.int64), np.stack([1 - rest, rest], axis=1)


def _cubic(places: Array, attributes: Attributes) -> tuple[Array, Array]:
    """Four pixels, from the one before the place."""
    first = np.floor(places)
    weights = keys_weights(places - first, number(attributes, "cubic_coeff_a", CUBIC_SLOPE))
    return first.astype(np.int64) - 1, np.stack(weights, axis=1)


# GridSample: pixels read at any places of a picture, -1 to 1 from edge to edge.

_FARTHEST = 2.0**30
"""Places farther out are all the same: outside."""


def grid_sample(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """x is [N, C, H, W], the grid [N, H', W', 2] with x before y; nearest, linear or cubic."""
    x, grid = inputs[0], inputs[1]
    if x.ndim != 4 or grid.ndim != 4 or grid.shape[-1] != 2 or grid.shape[0] != x.shape[0] or not x.size:
        raise UnsupportedError(f"a grid of {list(grid.shape)} on {list(x.shape)}; only pictures can be sampled")
    fitting((*x.shape[:2], *grid.shape[1:3]), shape)
    aligned, padding = bool(integer(attributes, "align_corners", 0)), text(attributes, "padding_mode", "zeros")
    if padding not in {"zeros", "border", "reflection"}:
        raise UnsupportedError(f"padding_mode {padding!r}")
    sizes = x.shape[3], x.shape[2]
    places = [_place(grid[..., k], size, aligned=aligned) for k, size in enumerate(sizes)]
    mode = text(attributes, "mode", "bilinear")
    if mode not in {"bicubic", "cubic"}:
        places = [_inside(place, size, padding, aligned) for place, size in zip(places, sizes, strict=True)]
    match mode:
        case "nearest":
            taps = [([np.rint(place)], [np.ones(place.shape)]) for place in places]
        case "bilinear" | "linear":
            taps = [_linear_at(place) for place in places]
        case "bicubic" | "cubic":
            taps = [_cubic_at(place) for place in places]
        case _:
            raise UnsupportedError(f"mode {mode!r}")
    total = np.zeros((*x.shape[:2], *grid.shape[1:3]))
    for column, across in zip(*taps[0], strict=True):
        for row, down in zip(*taps[1], strict=True):
            total += _read(x, row, column, padding, aligned) * (across * down)[:, None]
    return total


def _place(numbers: Array, size: int, *, aligned: bool) -> Array:
    """-1 and 1 are the centres of the outermost pixels if aligned, else their outer edges."""
    span = numbers.astype(np.float64)
    place = (span + 1) / 2 * (size - 1) if aligned else ((span + 1) * size - 1) / 2
    return np.clip(np.nan_to_num(place, nan=-_FARTHEST), -_FARTHEST, _FARTHEST)


def _inside(place: Array, size: int, padding: str, aligned: bool) -> Array:
    if padding == "border":
        return np.clip(place, 0, size - 1)
    if padding == "reflection":
        return _reflected(place, size, aligned=aligned)
    return place


def _reflected(place: Array, size: int, *, aligned: bool) -> Array:
    """Mirrored at the outermost centres if aligned, else at the outer edges."""
    low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
    span = high - low
    if not span:
        return np.zeros_like(place)
    away = np.mod(place - low, 2 * span)
    return np.clip(np.where(away > span, 2 * span - away, away) + low, 0, size - 1)


def _linear_at(place: Array) -> tuple[list[Array], list[Array]]:
    first = np.floor(place)
    rest = place - first
    return [first, first + 1], [1 - rest, rest]


def _cubic_at(place: Array) -> tuple[list[Array], list[Array]]:
    first = np.floor(place)
    return [first - 1, first, first + 1, first + 2], keys_weights(place - first, CUBIC_SLOPE)


def _read(x: Array, row: Array, column: Array, padding: str, aligned: bool) -> Array:
    """Pixels at whole places, [N, C, H', W']; those outside are 0, the edge, or mirrored."""
    height, width = x.shape[2:]
    outside = (row < 0) | (row >= height) | (column < 0) | (column >= width)
    if padding == "reflection":
        row, column = (_reflected(v, n, aligned=aligned) for v, n in ((row, height), (column, width)))
    rows, columns = (np.clip(v, 0, n - 1).astype(np.int64) for v, n in ((row, height), (column, width)))
    items = np.arange(x.shape[0])[:, None, None]
    pixels = np.moveaxis(x.transpose(0, 2, 3, 1)[items, rows, columns], -1, 1)
    return np.where(outside[:, None], 0, pixels) if padding == "zeros" else pixels


# Cubic interpolation by Keys' kernel, whose slope at 1 is `a`.

CUBIC_SLOPE = -0.75
"""ONNX's default, and PyTorch's."""


def keys_weights(rest: Array, a: float) -> list[Array]:
    """The weights of the four pixels at -1, 0, 1 and 2 for a place `rest` behind pixel 0."""
    return [_far(rest + 1, a), _near(rest, a), _near(1 - rest, a), _far(2 - rest, a)]


def _near(distance: Array, a: float) -> Array:
    return np.asarray(((a + 2) * distance - (a + 3)) * distance * distance + 1)


def _far(distance: Array, a: float) -> Array:
    return np.asarray(((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a)
