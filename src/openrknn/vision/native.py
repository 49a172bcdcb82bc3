"""The two slow parts of detection as native code: which cells pass, and which boxes stay.

Both return None where the native library is absent or the arrays are of another kind; the caller's NumPy code, which
says what they compute, does the work then.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn import nativelib
from openrknn.nativelib import structures
from openrknn.numerics import address
from openrknn.vision.heads import Array, Floats, Head

_MOST_BINS = 64
_LARGEST_STORED = 127


def _function(name: str, result: Any, *arguments: Any) -> Any:
    library = nativelib.library()
    if library is None:
        return None
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


@lru_cache(maxsize=64)
def _powers(scale: float) -> Floats:
    """e^(-d * scale) for every distance between two int8 numbers."""
    return np.asarray(np.exp(np.arange(256, dtype=np.float32) * np.float32(-scale)), np.float32)


def pick(score: Head, box: Head, limit: float) -> tuple[Array, Array, Array, Floats] | None:
    """Of [1, classes, h, w] and [1, 4 * bins, h, w] in int8: the cells with a score of at least `limit` (as stored),
    their best scores as stored, classes, and [4, n] distances."""
    scores, boxes = score.values, box.values
    bins = box.shape[1] // 4
    if not (_is_plain(scores) and _is_plain(boxes) and box.is_quantized and 2 <= bins <= _MOST_BINS):
        return None
    run = _function("openrknn_pick", ctypes.c_int64, ctypes.c_void_p)
    if run is None:
        return None
    cells = scores.shape[2] * scores.shape[3]
    if limit > _LARGEST_STORED:
        return np.zeros(0, np.int64), np.zeros(0, np.int8), np.zeros(0, np.int64), np.zeros((4, 0), np.float32)
    numbers = np.empty((2, cells), np.int64)
    best = np.empty(cells, np.int8)
    distances = np.empty((4, cells), np.float32)
    powers = _powers(box.scale)
    step = structures.Picking(
        address(scores), address(boxes), address(powers), cells, scores.shape[1], bins, max(int(limit), -128), 0,
        address(numbers), address(numbers) + numbers.strides[0], address(best), address(distances),
    )  # fmt: skip
    count = run(ctypes.addressof(step))
    return numbers[0, :count], best[:count], numbers[1, :count], distances[:, :count]


def _is_plain(values: Array) -> bool:
    return values.dtype == np.int8 and values.ndim == 4 and values.shape[0] == 1 and values.flags.c_contiguous


def suppress(
    boxes: Array, classes: Array, order: npt.NDArray[np.int64], overlap: float, limit: int
) -> npt.NDArray[np.int64] | None:
    """The rows of `order` that stay, at most `limit`."""
    run = _function(
        "openrknn_suppress", ctypes.c_int64,
        *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_float, ctypes.c_int64, ctypes.c_void_p,
    )  # fmt: skip
    if run is None or boxes.dtype != np.float32:
        return None
    corners = np.ascontiguousarray(boxes)
    kinds = np.ascontiguousarray(classes, np.int64)
    kept = np.empty(len(order), np.int64)
    count = run(
        address(corners), address(kinds), address(order), len(order), overlap, max(limit, 0), address(kept)
    )
    return kept[:count]
