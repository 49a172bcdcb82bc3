"""Resize: nearest, linear and cubic, one axis after the other, with all of ONNX's ways to place the pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.cubic import CUBIC_SLOPE, keys_weights
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
    """Where each pixel of the output lies in the input."""
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
