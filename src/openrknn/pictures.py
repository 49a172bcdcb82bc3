"""Picture files as arrays: the one place that decodes them, for whoever looks at pictures, calibrates or serves.

Cameras store a picture as they were held, and say so beside it: every picture is turned upright. Needs Pillow (the
extra `images`). Messages do not name the file: who asks knows how its users call it.
"""

from __future__ import annotations

import os
import struct
import threading
import warnings
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.errors import RknnError
from openrknn.extras import how_to_install

__all__ = ["SUFFIXES", "PictureError", "Pixels", "pillow", "read_picture"]

Pixels: TypeAlias = npt.NDArray[np.uint8]

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")
"""What a folder of pictures is searched for; a file that is named is read whatever its name ends with."""

# How Pillow complains about damaged files, beside OSError: each format has its own way.
_DAMAGE = (ValueError, SyntaxError, EOFError, OverflowError, MemoryError, struct.error)
# Filters of warnings belong to the whole process: threads that read pictures change them one after the other.
_FILTERS = threading.Lock()


class PictureError(RknnError):
    """A picture cannot be read: "no such file", "no picture that Pillow knows" ..."""


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
    formats: Sequence[str] | None = None,
    most_pixels: int | None = None,
) -> Pixels:
    """[height, width, 3], red first; [height, width] for the mode "L", [height, width, 4] for "RGBA".

    A size above `most_pixels` (else: above what Pillow takes without a warning) is refused before it is decoded.
    """
    image = pillow()
    from PIL import ImageOps, UnidentifiedImageError

    try:
        with _FILTERS, warnings.catch_warnings():
            warnings.simplefilter("error" if most_pixels is None else "ignore", image.DecompressionBombWarning)
            opened = image.open(source, formats=formats)
        with opened:
            if most_pixels is not None and opened.width * opened.height > most_pixels:
                raise PictureError(f"the picture has {opened.width}x{opened.height} pixels; scale it down first")
            return np.asarray(ImageOps.exif_transpose(opened).convert(mode), np.uint8)
    except UnidentifiedImageError:
        known = f"; known are {', '.join(formats)}" if formats else " that Pillow knows"
        raise PictureError(f"no picture{known}") from None
    except (image.DecompressionBombError, image.DecompressionBombWarning):
        raise PictureError("the picture has too many pixels; scale it down first") from None
    except FileNotFoundError:
        raise PictureError("no such file") from None
    except OSError as error:
        raise PictureError(error.strerror or f"the picture is damaged: {error}") from None
    except _DAMAGE as error:
        raise PictureError(f"the picture is damaged: {error}") from None
