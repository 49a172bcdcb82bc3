"""Video from camera to NPU: frames as descriptors, and their conversion to a model's input."""

from __future__ import annotations

from openrknn.pixels.formats import ColourRange, ColourSpace, PixelFormat
from openrknn.video.conversion import Conversion, boxes_for, convert
from openrknn.video.converters import Converter, open_converter
from openrknn.video.errors import FrameError, VideoError
from openrknn.video.frame import Plane, VideoFrame

__all__ = [
    "ColourRange",
    "ColourSpace",
    "Conversion",
    "Converter",
    "FrameError",
    "PixelFormat",
    "Plane",
    "VideoError",
    "VideoFrame",
    "boxes_for",
    "convert",
    "open_converter",
]
