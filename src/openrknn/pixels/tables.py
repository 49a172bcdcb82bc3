"""The numbers of a conversion: which source pixels each target pixel takes with which weight, and the colour matrix.

Everything is fixed point of 16 bits, so that one instruction of every vector unit multiplies it (SQRDMULH of Arm,
PMULHRSW of x86) and NumPy gives the same bytes:

    product(a, b) = (a * b + 2^14) >> 15

Weights and coefficients have 15 fractional bits; colours have 6 and then 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from openrknn.pixels.formats import ColourRange, ColourSpace, PixelFormat

__all__ = ["GRAY_WEIGHTS", "ONE", "Axis", "Matrix", "axis", "components", "matrix"]

ONE = 1 << 15
_Array = np.ndarray[Any, np.dtype[Any]]

GRAY_WEIGHTS = (9798, 19235, 3735)
"""Red, green and blue in the brightness of BT.601 (0.299, 0.587, 0.114); together exactly 1."""

_PRIMARIES = {
    ColourSpace.BT601: (0.299, 0.114),
    ColourSpace.BT709: (0.2126, 0.0722),
    ColourSpace.BT2020: (0.2627, 0.0593),
}
"""Parts of red and of blue in luma: ITU-R BT.601, BT.709 and BT.2020 (constant luminance is not supported)."""


@dataclass(frozen=True, slots=True)
class Axis:
    """For each target pixel along one axis: its two neighbours in the source, and the weight of the second."""

    first: _Array
    second: _Array
    weights: _Array


@lru_cache(maxsize=128)
def axis(start: int, stop: int, size: int) -> Axis:
    """Source pixels `start` to `stop` over `size` target pixels.

    Centres of pixels are at a half: target x looks at (x + 0.5) * (stop - start) / size - 0.5 behind `start`. Nothing
    outside of the box is looked at. These are the places of OpenCV's INTER_LINEAR on an array that was cut out.
    """
    length = stop - start
    numerators = (2 * np.arange(size, dtype=np.int64) + 1) * length - size
    first = numerators // (2 * size)
    weights = ((numerators - first * 2 * size) * ONE + size) // (2 * size)
    weights[(first < 0) | (first >= length - 1)] = 0
    first = np.clip(first, 0, length - 1)
    second = np.minimum(first + 1, length - 1)
    made = Axis(first + start, second + start, np.minimum(weights, ONE - 1).astype(np.int16))
    for values in (made.first, made.second, made.weights):
        values.flags.writeable = False
    return made


@dataclass(frozen=True, slots=True)
class Matrix:
    """From YUV to RGB: luma is counted from `black`; coefficients in 15 bits, luma's halved, chroma's quartered."""

    black: int
    luma: int
    red_v: int
    green_u: int
    green_v: int
    blue_u: int


@cache
def matrix(space: ColourSpace, values: ColourRange) -> Matrix:
    """For one colour space and range."""
    red, blue = _PRIMARIES[space]
    green = 1 - red - blue
    is_limited = values is ColourRange.LIMITED
    luma, chroma = (255 / 219, 255 / 224) if is_limited else (1.0, 1.0)
    red_v, blue_u = 2 * (1 - red) * chroma, 2 * (1 - blue) * chroma
    quarters = (red_v, -blue_u * blue / green, -red_v * red / green, blue_u)
    return Matrix(16 if is_limited else 0, round(luma / 2 * ONE), *(round(value / 4 * ONE) for value in quarters))


@dataclass(frozen=True, slots=True)
class Component:
    """The address of one component of a pixel: byte `step * (x // share) + offset` of its plane's row."""

    plane: int
    step: int
    offset: int = 0
    share: int = 1


_COMPONENTS = {
    PixelFormat.NV12: (Component(0, 1), Component(1, 2, 0, 2), Component(1, 2, 1, 2)),
    PixelFormat.NV21: (Component(0, 1), Component(1, 2, 1, 2), Component(1, 2, 0, 2)),
    PixelFormat.I420: (Component(0, 1), Component(1, 1, 0, 2), Component(2, 1, 0, 2)),
    PixelFormat.YUYV: (Component(0, 2), Component(0, 4, 1, 2), Component(0, 4, 3, 2)),
    PixelFormat.UYVY: (Component(0, 2, 1), Component(0, 4, 0, 2), Component(0, 4, 2, 2)),
    PixelFormat.RGB: (Component(0, 3, 0), Component(0, 3, 1), Component(0, 3, 2)),
    PixelFormat.BGR: (Component(0, 3, 2), Component(0, 3, 1), Component(0, 3, 0)),
    PixelFormat.RGBA: (Component(0, 4, 0), Component(0, 4, 1), Component(0, 4, 2)),
    PixelFormat.BGRA: (Component(0, 4, 2), Component(0, 4, 1), Component(0, 4, 0)),
    PixelFormat.GRAY: (Component(0, 1),),
}


def components(pixel_format: PixelFormat) -> tuple[Component, ...]:
    """Y, U and V, or red, green and blue, or gray."""
    return _COMPONENTS[pixel_format]
