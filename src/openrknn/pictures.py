"""Image files as arrays: the only place that decodes them.

Cameras store a picture the way they were held and record the rotation beside it: every picture is turned upright. Only
the formats listed here are ever decoded, whatever a file is called, and the memory that decoding takes is worked out
from the header first: a few hundred bytes can stand for gigabytes. Needs Pillow (the extra `images`). Messages do not
name the file: the caller knows what its users call it.
"""

from __future__ import annotations

import os
import struct
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.errors import RknnError
from openrknn.extras import how_to_install

Pixels: TypeAlias = npt.NDArray[np.uint8]

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
"""What a folder of pictures is searched for; a file that is named is read whatever its name ends with."""
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "GIF", "TIFF", "PPM")
"""What is decoded. Pillow knows many more; some of those start other programs (EPS: Ghostscript)."""
_BYTES_PER_PIXEL = 16
"""At the peak of decoding, turning and converting; measured 10 to 14 with Pillow 10 to 13."""
_BYTES_PER_WEBP_PIXEL = 24
"""WebP has two canvases of its own beside that; measured 14 to 23."""
_MOST_BYTES = 1024 * 1024 * 1024
"""What one picture may take where the caller sets no limit: 67 megapixels, 44 as WebP."""

GRAY = 114
"""The bars of a letterbox: what detectors are trained with."""
FITS = ("letterbox", "stretch", "crop", "line")
"""Ways to fit an image into the input of a model."""

# How Pillow complains about damaged files, beside OSError: each format has its own way.
_DAMAGE = (ValueError, SyntaxError, EOFError, OverflowError, MemoryError, struct.error)
# Filters of warnings belong to the whole process: threads that read pictures change them one after the other.
_FILTERS = threading.Lock()


class PictureError(RknnError):
    """A picture cannot be read: "no such file", "not a picture in a known format" ..."""


def decoded_bytes(form: str | None, width: int, height: int) -> int:
    """The memory that decoding takes at its peak."""
    return width * height * (_BYTES_PER_WEBP_PIXEL if form == "WEBP" else _BYTES_PER_PIXEL)


def pillow() -> Any:
    """The module `PIL.Image`."""
    try:
        from PIL import Image
    except ImportError:
        raise PictureError(f"pictures need Pillow; {how_to_install('images')}") from None
    return Image


def read_picture(
    source: str | os.PathLike[str] | IO[bytes],
    mode: str = "RGB",
    *,
    formats: Sequence[str] = FORMATS,
    most_pixels: int | None = None,
    admit: Callable[[int], None] | None = None,
) -> Pixels:
    """[height, width, 3], red first; [height, width] for the mode "L", [height, width, 4] for "RGBA".

    All limits apply before anything is decoded: `most_pixels` (default: what fits into 1 GiB), and `admit`, which is
    called with the bytes that decoding will take and may raise an error of its own.
    """
    image = pillow()
    from PIL import ImageOps, UnidentifiedImageError

    try:
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("ignore", image.DecompressionBombWarning)  # our own limits are lower or wanted
            opened = image.open(source, formats=formats)
        with opened:
            _check_size(opened, most_pixels, admit)
            ImageOps.exif_transpose(opened, in_place=True)
            return np.asarray(opened if opened.mode == mode else opened.convert(mode), np.uint8)
    except UnidentifiedImageError:
        raise PictureError(f"not a picture in a known format; known are {', '.join(formats)}") from None
    except image.DecompressionBombError:
        raise PictureError("the picture has too many pixels; scale it down first") from None
    except FileNotFoundError:
        raise PictureError("no such file") from None
    except OSError as error:
        raise PictureError(error.strerror or f"the picture is damaged: {error}") from None
    except _DAMAGE as error:
        raise PictureError(f"the picture is damaged: {error}") from None


def _check_size(opened: Any, most_pixels: int | None, admit: Callable[[int], None] | None) -> None:
    needed = decoded_bytes(opened.format, opened.width, opened.height)
    pixels = opened.width * opened.height
    if pixels > most_pixels if most_pixels is not None else needed > _MOST_BYTES:
        raise PictureError(f"the picture has {opened.width}x{opened.height} pixels; scale it down first")
    if admit is not None:
        admit(needed)


def letterbox_box(width: int, height: int, frame_width: int, frame_height: int) -> tuple[int, int, int, int]:
    """Where the whole picture goes into the middle of a frame: left, top, width and height in whole pixels."""
    scale = min(frame_width / width, frame_height / height)
    inner_width = min(max(round(width * scale), 1), frame_width)
    inner_height = min(max(round(height * scale), 1), frame_height)
    return (frame_width - inner_width) // 2, (frame_height - inner_height) // 2, inner_width, inner_height


def line_width(width: int, height: int, frame_width: int, frame_height: int) -> int:
    """The width of a line of text that is as high as the frame and starts at its left edge."""
    return min(max(round(width * frame_height / height), 1), frame_width)


def crop_offsets(width: int, height: int, frame_width: int, frame_height: int) -> tuple[float, float, float]:
    """A picture whose middle fills the frame: its scale, and the position of its top left corner."""
    scale = max(frame_width / width, frame_height / height)
    return scale, (frame_width - width * scale) / 2, (frame_height - height * scale) / 2
