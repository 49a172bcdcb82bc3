"""Pictures from files, made to fit an input: size, colour order, channels. Needs Pillow (the extra `images`)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from openrknn.cli.files import os_problem
from openrknn.cli.output import CommandError

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["FITS", "ORDERS", "Frame", "read_picture"]

FITS = ("auto", "stretch", "letterbox", "crop")
ORDERS = ("auto", "rgb", "bgr")

_GRAY = 114
"""The colour of a letterbox's bars: what detectors are trained with."""
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


@dataclass(frozen=True, slots=True)
class Frame:
    """What an input wants from a picture."""

    height: int
    width: int
    channels: int
    fit: str
    """stretch, letterbox or crop."""
    order: str
    """rgb or bgr."""


def read_picture(path: str, frame: Frame) -> npt.NDArray[np.uint8]:
    """The picture in `path` as uint8 [1, height, width, channels]."""
    picture = _fitted(_open(path).convert(_MODES[frame.channels]), frame)
    pixels = np.asarray(picture, np.uint8).reshape(1, frame.height, frame.width, frame.channels)
    if frame.order == "bgr" and frame.channels >= 3:
        pixels = pixels[..., [2, 1, 0, *range(3, frame.channels)]]
    return np.ascontiguousarray(pixels)


def _open(path: str) -> Image:
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError
    except ImportError:
        raise CommandError(
            f"{path}: reading pictures needs Pillow; `pip install 'openrknn[images]'`, or give a .npy file"
        ) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as file:
                # Cameras store pictures as they were held, and say so.
                return ImageOps.exif_transpose(file)
    except UnidentifiedImageError:
        raise CommandError(f"{path}: no picture that Pillow knows; give .npy, .npz, .png, .jpg ...") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise CommandError(f"{path}: the picture is too large; scale it down first") from None
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error
    except (ValueError, SyntaxError) as error:  # how Pillow complains about damaged files
        raise CommandError(f"{path}: the picture is damaged: {error}") from None


def _fitted(picture: Image, frame: Frame) -> Image:
    if frame.fit == "letterbox":
        return _letterbox(picture, frame)
    if frame.fit == "crop":
        picture = _cropped(picture, frame)
    return _resized(picture, frame.width, frame.height)


def _resized(picture: Image, width: int, height: int) -> Image:
    """By area where it shrinks, so that every pixel counts; between pixels where it grows."""
    from PIL.Image import Resampling, fromarray

    if width > picture.width or height > picture.height:
        return picture.resize((width, height), Resampling.BILINEAR)
    pixels = np.asarray(picture, np.float32)
    shrunk = _shrunk(_shrunk(pixels, height).swapaxes(0, 1), width).swapaxes(0, 1)
    return fromarray(np.rint(shrunk).astype(np.uint8), picture.mode)


def _shrunk(pixels: npt.NDArray[np.float32], size: int) -> npt.NDArray[np.float32]:
    """`size` rows, each the mean of the rows that it covers; rows at the edges count by the part that it covers.

    Pillow's own box filter takes whole rows only, which shifts edges by up to half a pixel.
    """
    edges = np.arange(size + 1) * (len(pixels) / size)
    rows = []
    for start, end in pairwise(edges):
        first, last = int(start), min(int(np.ceil(end)), len(pixels))
        covered = np.minimum(np.arange(first, last) + 1, end) - np.maximum(np.arange(first, last), start)
        rows.append(np.tensordot((covered / covered.sum()).astype(np.float32), pixels[first:last], 1))
    return np.stack(rows)


def _cropped(picture: Image, frame: Frame) -> Image:
    """The largest part in the middle that has the proportions of the frame."""
    scale = min(picture.width / frame.width, picture.height / frame.height)
    width, height = max(int(frame.width * scale), 1), max(int(frame.height * scale), 1)
    left, top = (picture.width - width) // 2, (picture.height - height) // 2
    return picture.crop((left, top, left + width, top + height))


def _letterbox(picture: Image, frame: Frame) -> Image:
    """The whole picture in the middle, gray around it."""
    from PIL.Image import new

    scale = min(frame.width / picture.width, frame.height / picture.height)
    width, height = max(round(picture.width * scale), 1), max(round(picture.height * scale), 1)
    gray: Any = _GRAY if frame.channels == 1 else (_GRAY,) * 3 + (255,) * (frame.channels - 3)
    sheet = new(picture.mode, (frame.width, frame.height), gray)
    sheet.paste(_resized(picture, width, height), ((frame.width - width) // 2, (frame.height - height) // 2))
    return sheet
