"""What the specification and the native kernel are given: everything checked, everything in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.pixels.formats import PixelFormat
from openrknn.pixels.tables import Axis, Matrix

__all__ = ["Request"]


@dataclass(frozen=True, slots=True)
class Request:
    """One conversion. `target` is the part that the image fills, [rows, columns, channels]."""

    format: PixelFormat
    planes: tuple[np.ndarray[Any, np.dtype[np.uint8]], ...]
    width: int
    """Of the whole image."""
    start: int
    stop: int
    """The columns of the image that `columns` is about."""
    columns: Axis
    rows: Axis
    matrix: Matrix
    target: np.ndarray[Any, np.dtype[np.uint8]]
    is_bgr: bool
