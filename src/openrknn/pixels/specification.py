"""What a conversion computes, in NumPy. native/pixels.c gives the same bytes.

For each target pixel four pixels of the source, two in a row and two rows, become colours, and are then interpolated
along the row and between the rows: bilinear, as OpenCV's INTER_LINEAR, without a filter that would blur what is made
smaller. Colours before interpolation, because values outside of 0 to 255 are clipped where the source has them.

YUV: luma below black (16 in the limited range) counts as black, as in OpenCV. A pixel takes the chroma sample of its
pair (its block of 2x2): chroma is neither shifted nor smoothed, as in OpenCV and libyuv, whatever the siting.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from openrknn.pixels.request import Request
from openrknn.pixels.tables import GRAY_WEIGHTS, Matrix, components

__all__ = ["gray_of", "run"]

_Array = np.ndarray[Any, np.dtype[Any]]
_MOST_SIXTHS = 255 << 6


def _product(a: Any, b: Any) -> Any:
    """Of numbers with 16 bits, one of them with 15 fractional ones; rounded."""
    return (a * b + (1 << 14)) >> 15


def gray_of(red: Any, green: Any, blue: Any) -> Any:
    """Brightness of colours with 7 fractional bits."""
    return sum(_product(value, weight) for value, weight in zip((red, green, blue), GRAY_WEIGHTS, strict=True))


def run(request: Request) -> None:
    """Write the target."""
    upper = _row_values(request, request.rows.first)
    lower = _row_values(request, request.rows.second)
    weights = request.rows.weights.astype(np.int32)[:, None]
    channels = [(_blend(a, b, weights) + 64) >> 7 for a, b in zip(upper, lower, strict=True)]
    target = request.target
    if target.shape[2] == 1:
        target[..., 0] = channels[0]
        return
    colours = channels * 3 if len(channels) == 1 else channels
    for number, values in enumerate(colours[::-1] if request.is_bgr else colours):
        target[..., number] = values
    if target.shape[2] == 4:
        target[..., 3] = 255


def _blend(a: _Array, b: _Array, weights: _Array) -> _Array:
    blended: _Array = a + _product(b - a, weights)
    return blended


def _row_values(request: Request, rows: _Array) -> list[_Array]:
    """The channels of these rows of the source, interpolated along the row: 7 fractional bits."""
    left = _colours(request, rows, request.columns.first)
    right = _colours(request, rows, request.columns.second)
    weights = request.columns.weights.astype(np.int32)[None, :]
    return [_blend(a, b, weights) for a, b in zip(left, right, strict=True)]


def _colours(request: Request, rows: _Array, columns: _Array) -> list[_Array]:
    """Red, green and blue, or only gray, of the source's pixels: 7 fractional bits."""
    samples = []
    for component in components(request.format):
        plane = request.planes[component.plane]
        shared = request.format.planes[component.plane].vertical
        places = component.step * (columns // component.share) + component.offset
        samples.append(plane[(rows // shared)[:, None], places[None, :]].astype(np.int32))
    is_gray = request.target.shape[2] == 1
    if request.format.is_yuv:
        y, u, v = samples
        return [_luma(y, request.matrix)] if is_gray else _from_yuv(y, u, v, request.matrix)
    colours = [values << 7 for values in samples]
    return [gray_of(*colours)] if is_gray and len(colours) == 3 else colours


def _luma(y: _Array, matrix: Matrix) -> _Array:
    return np.minimum(_sixths(y, matrix), _MOST_SIXTHS) << 1


def _sixths(y: _Array, matrix: Matrix) -> _Array:
    """Luma with 6 fractional bits."""
    scaled: _Array = _product(np.maximum(y - matrix.black, 0) << 7, matrix.luma)
    return scaled


def _from_yuv(y: _Array, u: _Array, v: _Array, matrix: Matrix) -> list[_Array]:
    luma = _sixths(y, matrix)
    u, v = (u - 128) << 8, (v - 128) << 8
    red = luma + _product(v, matrix.red_v)
    green = luma + _product(u, matrix.green_u) + _product(v, matrix.green_v)
    blue = luma + _product(u, matrix.blue_u)
    return [np.clip(values, 0, _MOST_SIXTHS) << 1 for values in (red, green, blue)]
