"""What Resize does along one axis, as a matrix [outputs, inputs]: ONNX's formulas for every mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openrknn.compiler.budget import check_array, filled
from openrknn.compiler.errors import ModelError
from openrknn.compiler.ir import Array

_NEAREST: Mapping[str, Any] = {
    "floor": np.floor, "ceil": np.ceil,
    "round_prefer_floor": lambda v: np.ceil(v - 0.5), "round_prefer_ceil": lambda v: np.floor(v + 0.5),
}  # fmt: skip


def places(size: int, made: int, scale: float, how: Mapping[str, Any], region: tuple[float, float]) -> Array:
    """Position of each output among the inputs."""
    at = np.arange(made, dtype=np.float64)
    mode, length = how["coordinate_transformation_mode"], scale * size
    if mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        return at * (size - 1) / (length - 1) if length != 1 else np.zeros(made)
    if mode == "tf_crop_and_resize":
        start, end = region
        if length > 1:
            return start * (size - 1) + at * (end - start) * (size - 1) / (length - 1)
        return np.full(made, 0.5 * (start + end) * (size - 1))
    if mode == "pytorch_half_pixel" and made == 1:
        return np.zeros(made)  # as ONNX's text says; its reference evaluator takes -0.5, ONNX Runtime does not
    half = (at + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return half + size / 2 * (1 - made / length)
    return half


def outside(size: int, made: int, scale: float, how: Mapping[str, Any], region: tuple[float, float]) -> Array:
    """Which outputs lie beyond the inputs: only regions that are cropped have any."""
    if how["coordinate_transformation_mode"] != "tf_crop_and_resize":
        return np.zeros(made, bool)
    at = places(size, made, scale, how, region)
    return (at < 0) | (at > size - 1)


def matrix(size: int, made: int, scale: float, how: Mapping[str, Any], region: tuple[float, float]) -> Array:
    """Outputs from inputs; beyond the edge is the edge."""
    if not np.isfinite(scale) or scale <= 0:
        raise ModelError(f"Resize has the scale {scale}; scales are positive numbers. Export the model again")
    if not np.isfinite(region).all():
        raise ModelError(f"Resize has the region {region}, which is no number. Export the model again")
    at = places(size, made, scale, how, region)
    result = filled((made, size), "Resize")
    rows = np.arange(made)
    if how["mode"] == "nearest":
        result[rows, np.clip(_NEAREST[how["nearest_mode"]](at), 0, size - 1).astype(int)] = 1
    else:
        # With antialias a smaller picture sees as many more pixels as it is smaller.
        wide = min(scale, 1.0) if how["antialias"] else 1.0
        reach = 1 if how["mode"] == "linear" else 2
        first = np.floor(at)
        span = int(np.ceil(reach / wide))
        check_array((made, 2 * span + 2), "Resize")
        taps = np.arange(-span, span + 2)
        there = first[:, None] + taps
        weights = _kernel(np.abs(there - at[:, None]) * wide, how)
        if how["exclude_outside"]:
            weights = np.where((there < 0) | (there >= size), 0.0, weights)
        if how["exclude_outside"] or how["antialias"]:
            weights /= weights.sum(1, keepdims=True)
        np.add.at(result, (rows[:, None], np.clip(there, 0, size - 1).astype(int)), weights)
    result[outside(size, made, scale, how, region)] = 0
    return result


def _kernel(distance: Array, how: Mapping[str, Any]) -> Array:
    """The share of a pixel at this distance: a triangle, or Keys' cubic."""
    result: Array
    if how["mode"] == "linear":
        result = np.maximum(1 - distance, 0)
        return result
    a, d = float(how["cubic_coeff_a"]), distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    result = np.where(d <= 1, near, np.where(d < 2, far, 0.0))
    return result
