"""What can go wrong between a camera and the NPU."""

from __future__ import annotations

from openrknn.errors import RknnError

__all__ = ["FrameError", "SourceError", "VideoError"]


class VideoError(RknnError):
    """A source, a decoder or a converter of video cannot do what was asked; the message says which and why."""


class FrameError(VideoError, ValueError):
    """Size, format, strides and memory of a frame do not fit together."""


class SourceError(VideoError):
    """A camera, file, stream or decoder gives no frames; the message says which, why, and what to do."""
