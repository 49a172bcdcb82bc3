"""From an image in any format to the pixels of a model's input, in one pass over the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from openrknn.errors import RknnError
from openrknn.pixels import native, specification
from openrknn.pixels.formats import ColourRange, ColourSpace, PixelFormat
from openrknn.pixels.request import Request
from openrknn.pixels.tables import axis, matrix

__all__ = ["Box", "Fill", "Image", "PixelsError", "convert", "fill_around", "fill_values"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Box: TypeAlias = tuple[int, int, int, int]
"""Left, top, right and bottom in whole pixels; right and bottom are the first ones outside."""
Fill: TypeAlias = int | Sequence[int]

_CHANNELS = (1, 3, 4)
ORDERS = ("rgb", "bgr")


class PixelsError(RknnError, ValueError):
    """An image, a box or a target of a conversion does not fit."""


@dataclass(frozen=True, slots=True)
class Image:
    """Pixels in memory: for each plane of the format its rows as bytes, with whatever stride they have."""

    format: PixelFormat
    width: int
    height: int
    planes: tuple[Bytes, ...]
    space: ColourSpace = ColourSpace.BT601
    range: ColourRange = ColourRange.LIMITED

    def __post_init__(self) -> None:
        layouts = self.format.planes
        needed = [(layout.rows(self.height), layout.row_bytes(self.width)) for layout in layouts]
        given = [plane.shape for plane in self.planes]
        if self.width < 1 or self.height < 1 or given != needed:
            raise PixelsError(
                f"{self.format.name} of {self.width}x{self.height} has planes of {needed} bytes, and {given} were given"
            )
        for plane in self.planes:
            if plane.dtype != np.uint8 or (plane.shape[1] > 1 and plane.strides[1] != 1):
                raise PixelsError(f"planes are rows of bytes (uint8), not {plane.dtype} with strides {plane.strides}")


def convert(
    image: Image,
    target: Bytes,
    *,
    crop: Box | None = None,
    place: Box | None = None,
    fill: Fill = 114,
    order: str = "rgb",
) -> str:
    """Scale the part `crop` of the image into the part `place` of `target`, and fill the rest.

    `target` is uint8 [height, width, channels] with 1, 3 or 4 channels; its rows may be padded. One channel is
    brightness; a fourth is 255. `fill`: one number, or one for red, green and blue. Returns which code did it:
    "native" or "numpy", with the same bytes.
    """
    _check_target(target, order)
    height, width, channels = target.shape
    source = checked_box("crop", crop, image.width, image.height)
    into = checked_box("place", place, width, height)
    fill_around(target, into, fill_values(fill, channels, order))
    left, top, right, bottom = into
    request = Request(
        image.format,
        image.planes,
        image.width,
        source[0],
        source[2],
        axis(source[0], source[2], right - left),
        axis(source[1], source[3], bottom - top),
        matrix(image.space, image.range),
        target[top:bottom, left:right],
        order == "bgr",
    )
    if native.run(request):
        return "native"
    specification.run(request)
    return "numpy"


def _check_target(target: Bytes, order: str) -> None:
    if target.dtype != np.uint8 or target.ndim != 3 or target.shape[2] not in _CHANNELS or not target.size:
        raise PixelsError(
            f"the target is {target.dtype} of shape {target.shape}; it has to be uint8 [height, width, 1, 3 or 4]"
        )
    channels = target.shape[2]
    if not target.flags.writeable or target.strides[2] != 1 or target.strides[1] != channels or target.strides[0] < 0:
        raise PixelsError(
            f"the target has to be writable, with pixels next to each other in a row; its strides are {target.strides}"
        )
    if order not in ORDERS:
        raise PixelsError(f"order={order!r} is unknown; the choices are 'rgb' and 'bgr'")


def checked_box(name: str, box: Box | None, width: int, height: int) -> Box:
    """The box, or the whole image."""
    if box is None:
        return 0, 0, width, height
    left, top, right, bottom = (int(value) for value in box)
    if (left, top, right, bottom) != tuple(box):
        raise PixelsError(f"{name}={tuple(box)}: boxes are whole pixels")
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        raise PixelsError(f"{name}={tuple(box)} (left, top, right, bottom) is not inside of {width}x{height} pixels")
    return left, top, right, bottom


def fill_values(fill: Fill, channels: int, order: str) -> tuple[int, ...]:
    """The numbers of a pixel outside of the placed image, in the order of the target."""
    colours = (fill,) * 3 if isinstance(fill, int) else tuple(int(value) for value in fill)
    if len(colours) != 3 or not all(0 <= value <= 255 for value in colours):
        raise PixelsError(f"fill={fill!r}: a number from 0 to 255, or three of them for red, green and blue")
    if channels == 1:
        red, green, blue = colours
        return (int(specification.gray_of(red << 7, green << 7, blue << 7) + 64) >> 7,)
    ordered = colours[::-1] if order == "bgr" else colours
    return ordered if channels == 3 else (*ordered, 255)


def fill_around(target: Bytes, into: Box, values: tuple[int, ...]) -> None:
    """Write the borders: what is above, below, left and right of the placed image."""
    left, top, right, bottom = into
    for part in (target[:top], target[bottom:], target[top:bottom, :left], target[top:bottom, right:]):
        if part.size:
            part[...] = values[0] if len(set(values)) == 1 else np.array(values, np.uint8)
