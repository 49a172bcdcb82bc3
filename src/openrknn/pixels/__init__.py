"""Images in memory: pixel formats, and the one-step conversion of crop, scale, colour and borders.

`specification` defines the result in NumPy; `native` gives the same bytes. Cameras, decoders and the emulated RGA
use it; `openrknn.video` is the public interface.
"""

from __future__ import annotations

from openrknn.pixels.convert import Image, PixelsError, convert
from openrknn.pixels.formats import ColourRange, ColourSpace, PixelFormat

__all__ = ["ColourRange", "ColourSpace", "Image", "PixelFormat", "PixelsError", "convert"]
