"""Files, streams and cameras through OpenCV: the last way, for its frames are converted to BGR and copied."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from openrknn.extras import how_to_install
from openrknn.pixels.formats import PixelFormat
from openrknn.video.errors import SourceError
from openrknn.video.frame import VideoFrame
from openrknn.video.sources.base import VideoSource, check_size

__all__ = ["OpencvSource"]

_SIZE_PROPERTIES = (3, 4)  # cv2.CAP_PROP_FRAME_WIDTH and _HEIGHT
_COPIES = 2
"""YUV to BGR, and into the array."""


class OpencvSource(VideoSource):
    """What `cv2.VideoCapture` opens."""

    def __init__(self, place: str, *, is_live: bool) -> None:
        super().__init__(place, is_live=is_live, decoder="OpenCV")
        self._capture = _open(place)
        self._number = 0
        if hasattr(self._capture, "get"):
            width, height = (int(self._capture.get(number)) for number in _SIZE_PROPERTIES)
            if width * height:
                check_size(place, width, height)
        if hasattr(self._capture, "getBackendName"):
            self.decoder = f"OpenCV ({self._capture.getBackendName()})"

    def read(self) -> VideoFrame | None:
        """The next frame."""
        well, picture = self._capture.read()
        if well:
            pixels = np.ascontiguousarray(np.asarray(picture, np.uint8))
            number, self._number = self._number, self._number + 1
            height, width = pixels.shape[:2]
            return VideoFrame.of_bytes(
                PixelFormat.BGR, width, height, pixels.reshape(-1), number=number, copies=_COPIES
            )
        if not self._number or self.is_live:
            what = "the stream ended" if self._number else "no picture came"
            raise SourceError(f"{self.place}: {what}; check the source")
        return None

    def close(self) -> None:
        """Close the file or the camera."""
        self._capture.release()


@contextmanager
def _silent(cv2: Any) -> Iterator[None]:
    """Where another module loaded OpenCV before, its messages are off for the moment."""
    levels = getattr(getattr(cv2, "utils", None), "logging", None)
    if levels is None:  # an older OpenCV
        yield
        return
    before = levels.getLogLevel()
    levels.setLogLevel(levels.LOG_LEVEL_ERROR)
    try:
        yield
    finally:
        levels.setLogLevel(before)


def _open(place: str) -> Any:
    # OpenCV writes to standard error, unless this is set before it is loaded; the reason is in our own error.
    os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")
    try:
        cv2: Any = importlib.import_module("cv2")
    except ImportError:
        raise SourceError(f"{place}: no decoder for videos is installed; {how_to_install('video')}") from None
    with _silent(cv2):
        capture = cv2.VideoCapture(int(place) if place.isdigit() else place)
    if not capture.isOpened():
        capture.release()
        what = "camera" if place.isdigit() or place.startswith("/dev/") else "video"
        raise SourceError(f"{place}: the {what} cannot be opened; check the number, path or address")
    return capture
