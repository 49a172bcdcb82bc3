"""Pictures as arrays: uint8 [height, width, 3], red first. Reading and scaling need Pillow (the extra `images`)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from openrknn.pictures import GRAY, PictureError, Pixels, pillow
from openrknn.pictures import read_picture as decode_picture
from openrknn.vision.errors import SourceError
from openrknn.vision.geometry import Placement
from openrknn.vision.heads import Array

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["MIDDLE_GRAY", "Pixels", "as_pixels", "cut_out", "fitted", "read_picture", "to_image"]

MIDDLE_GRAY = 127
"""Behind a line of text: what its reader is trained with, zero after normalization."""
_CHANNELS = (1, 3, 4)
# ITU-R BT.601: how bright the eye finds red, green and blue.
_BRIGHTNESS = np.array((0.299, 0.587, 0.114), np.float32)


def _pillow(what: str) -> Any:
    try:
        return pillow()
    except PictureError as error:
        raise SourceError(f"{what}: {error}") from None


def read_picture(path: str | os.PathLike[str]) -> Pixels:
    """The picture in a file, upright."""
    try:
        return decode_picture(path)
    except PictureError as error:
        raise SourceError(f"{os.fspath(path)}: {error}") from None


def as_pixels(picture: object, name: str = "picture") -> Pixels:
    """A path, an array [h, w], [h, w, 1], [h, w, 3] or [h, w, 4], or a Pillow image, as pixels."""
    if isinstance(picture, str | os.PathLike):
        return read_picture(picture)
    if hasattr(picture, "convert") and not isinstance(picture, np.ndarray):
        return np.asarray(picture.convert("RGB"), np.uint8)
    array = np.asarray(picture)
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in _CHANNELS or not array.size:
        raise ValueError(f"{name}: an array of shape {array.shape} is not a picture; it has to be [height, width, 3]")
    if array.dtype != np.uint8:
        raise TypeError(f"{name}: pixels are uint8, 0 to 255; {array.dtype} was given")
    return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else np.ascontiguousarray(array[:, :, :3])


def to_image(pixels: Pixels) -> Image:
    """As a Pillow image."""
    image: Image = _pillow("making a picture").fromarray(np.ascontiguousarray(pixels))
    return image


def fitted(pixels: Pixels, placement: Placement, *, channels: int = 3, order: str = "rgb") -> Pixels:
    """The picture where its placement wants it: uint8 [1, height, width, channels], gray around it."""
    if channels not in _CHANNELS:
        raise ValueError(f"a picture has 1, 3 or 4 channels, not {channels}")
    left, top, right, bottom = placement.covered()
    frame = placement.frame
    is_line = (left, top, bottom) == (0, 0, frame.height) and right < frame.width
    sheet = np.full((frame.height, frame.width, 3), MIDDLE_GRAY if is_line else GRAY, np.uint8)
    sheet[top:bottom, left:right] = _scaled(pixels, placement.visible(), right - left, bottom - top)
    return np.ascontiguousarray(_with_channels(sheet, channels, order)[None])


def _scaled(pixels: Pixels, part: tuple[float, float, float, float], width: int, height: int) -> Pixels:
    """A part of the picture; a smaller one is a mean of its pixels, so that none is lost."""
    if (width, height) == (pixels.shape[1], pixels.shape[0]) and part == (0.0, 0.0, float(width), float(height)):
        return pixels
    bilinear = _pillow("scaling a picture").Resampling.BILINEAR
    return np.asarray(to_image(pixels).resize((width, height), bilinear, box=part), np.uint8)


def _with_channels(sheet: Pixels, channels: int, order: str) -> Pixels:
    if channels == 1:
        return np.asarray(np.rint(sheet @ _BRIGHTNESS), np.uint8)[:, :, None]
    colours = sheet[:, :, ::-1] if order == "bgr" else sheet
    if channels == 4:
        return np.concatenate([colours, np.full((*sheet.shape[:2], 1), 255, np.uint8)], axis=2)
    return colours


def cut_out(pixels: Pixels, corners: Array) -> Pixels:
    """The part inside four corners, which go round it from its upper left, as an upright picture."""
    image = _pillow("cutting out text")
    upper_left, upper_right, lower_right, lower_left = (point.astype(float) for point in corners)
    width = round(float(np.linalg.norm(upper_right - upper_left)))
    height = round(float(np.linalg.norm(lower_left - upper_left)))
    # Pillow wants them the other way round: upper left, lower left, lower right, upper right.
    data = (*upper_left, *lower_left, *lower_right, *upper_right)
    size = (max(width, 1), max(height, 1))
    part = to_image(pixels).transform(size, image.Transform.QUAD, data, image.Resampling.BILINEAR)
    return np.asarray(part, np.uint8)
