"""Images in memory: pixel formats, and the one-step conversion of crop, scale, colour and borders.

`specification` says in NumPy what is computed; `native` gives the same bytes. Cameras, decoders and the emulated RGA
stand on it; `openrknn.video` is what users call.
"""

from __future__ import annotations

from openrknn.pixels.convert import Image, PixelsError, convert
from openrknn.pixels.formats import ColourRange, ColourSpace, PixelFormat

__all__ = ["ColourRange", "ColourSpace", "Image", "PixelFormat", "PixelsError", "convert"]
