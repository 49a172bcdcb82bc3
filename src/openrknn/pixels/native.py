"""The native kernel of conversions: the same bytes as `specification`, in one pass."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from openrknn import nativelib
from openrknn.nativelib.structures import Pixels
from openrknn.pixels.formats import PixelFormat
from openrknn.pixels.request import Request
from openrknn.pixels.tables import axis, components

__all__ = ["run"]

_Array = np.ndarray[Any, np.dtype[Any]]
_BLOCK = 16
"""Columns that the kernel works on at once."""
_WINDOW = 64
"""Bytes that one table instruction looks into."""
_COLOURS, _YUV, _BRIGHTNESS, _LUMA, _GRAY = range(5)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The tables of one component along a row: places, windows and lanes, as `nativelib.structures.Pixels` has them."""

    places: _Array
    windows: _Array
    lanes: _Array


@lru_cache(maxsize=64)
def _columns(pixel_format: PixelFormat, width: int, start: int, stop: int, size: int) -> tuple[_Columns, ...]:
    """For an image of this width whose columns `start` to `stop` become `size`."""
    both = axis(start, stop, size)
    padding = (0, -size % _BLOCK)
    pixels = np.stack([np.pad(values, padding, "edge") for values in (both.first, both.second)])
    found = []
    for component in components(pixel_format):
        places = component.step * (pixels // component.share) + component.offset
        blocks = places.reshape(2, -1, _BLOCK)
        row_bytes = pixel_format.planes[component.plane].row_bytes(width)
        windows = np.minimum(blocks.min(axis=(0, 2)), row_bytes - _WINDOW)
        lanes = blocks - windows[None, :, None]
        # Rows that are too short have no window; images that are made much smaller need more than one.
        windows[(windows < 0) | (lanes.max(axis=(0, 2)) >= _WINDOW)] = -1
        lanes = np.where(windows[None, :, None] < 0, 0, lanes).reshape(2, -1)
        found.append(_Columns(places.astype(np.int32), windows.astype(np.int32), lanes.astype(np.uint8)))
    return tuple(found)


def _kind(pixel_format: PixelFormat, channels: int) -> int:
    if pixel_format is PixelFormat.GRAY:
        return _GRAY
    if pixel_format.is_yuv:
        return _LUMA if channels == 1 else _YUV
    return _BRIGHTNESS if channels == 1 else _COLOURS


def run(request: Request) -> bool:
    """Convert; False where the native library is absent, or older than this function."""
    library = nativelib.library()
    function = getattr(library, "openrknn_convert", None)
    if function is None:
        return False
    function.restype, function.argtypes = None, (ctypes.c_void_p,)
    height, width, channels = request.target.shape
    found = _columns(request.format, request.width, request.start, request.stop, width)
    padded = width + -width % _BLOCK
    column_weights = np.pad(request.columns.weights, (0, padded - width))
    rows = np.stack([request.rows.first, request.rows.second]).astype(np.int32)
    scratch = np.empty(6 * padded, np.int16)
    task = Pixels()
    for number, (component, tables) in enumerate(zip(components(request.format), found, strict=True)):
        plane = request.planes[component.plane]
        task.planes[number] = plane.ctypes.data
        task.strides[number] = plane.strides[0]
        task.shares[number] = request.format.planes[component.plane].vertical
        task.places[number] = tables.places.ctypes.data
        task.windows[number] = tables.windows.ctypes.data
        task.lanes[number] = tables.lanes.ctypes.data
    task.column_weights, task.rows = column_weights.ctypes.data, rows.ctypes.data
    task.row_weights, task.scratch = request.rows.weights.ctypes.data, scratch.ctypes.data
    task.target, task.target_stride = request.target.ctypes.data, request.target.strides[0]
    task.padded, task.width, task.height, task.channels = padded, width, height, channels
    task.kind, task.is_bgr = _kind(request.format, channels), int(request.is_bgr)
    matrix = request.matrix
    task.black, task.luma, task.red_v = matrix.black, matrix.luma, matrix.red_v
    task.green_u, task.green_v, task.blue_u = matrix.green_u, matrix.green_v, matrix.blue_u
    function(ctypes.addressof(task))
    return True
