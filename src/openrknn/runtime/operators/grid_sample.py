"""GridSample: pixels read at any places of a picture, -1 to 1 from edge to edge."""

from __future__ import annotations

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.cubic import CUBIC_SLOPE, keys_weights
from openrknn.runtime.operators.interface import Array, Attributes, Inputs, Shape, fitting, integer, text

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
            taps = [_linear(place) for place in places]
        case "bicubic" | "cubic":
            taps = [_cubic(place) for place in places]
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


def _linear(place: Array) -> tuple[list[Array], list[Array]]:
    first = np.floor(place)
    rest = place - first
    return [first, first + 1], [1 - rest, rest]


def _cubic(place: Array) -> tuple[list[Array], list[Array]]:
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
