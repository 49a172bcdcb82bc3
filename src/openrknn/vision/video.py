"""Videos, cameras and network streams through OpenCV (the extra `video`)."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from openrknn.extras import how_to_install
from openrknn.vision.errors import SourceError
from openrknn.vision.pictures import Pixels

_SIZE_PROPERTIES = (3, 4)  # cv2.CAP_PROP_FRAME_WIDTH and _HEIGHT
_MOST_PIXELS = 64 * 1024 * 1024
"""Of one frame: as large as the largest picture (`openrknn.pictures`)."""


def frames(place: str, *, is_live: bool) -> Iterator[Pixels]:
    """The pictures of a video file, a camera ("0", "/dev/video0") or an address (rtsp://...)."""
    capture = _open(place)
    try:
        _check_size(capture, place)
        count = 0
        while True:
            well, picture = capture.read()
            if not well:
                break
            count += 1
            yield np.ascontiguousarray(np.asarray(picture, np.uint8)[:, :, ::-1])  # OpenCV has blue first
        if not count or is_live:
            raise SourceError(f"{place}: {'the stream ended' if count else 'no picture came'}; check the source")
    finally:
        capture.release()


def _check_size(capture: Any, place: str) -> None:
    """Before the first frame: a header can promise more pixels than there is memory."""
    if not hasattr(capture, "get"):  # a stand-in for OpenCV
        return
    width, height = (int(capture.get(number)) for number in _SIZE_PROPERTIES)
    if width * height > _MOST_PIXELS:
        raise SourceError(f"{place}: the frames have {width}x{height} pixels; scale the video down first")


@contextmanager
def _silent(cv2: Any) -> Iterator[None]:
    """Where somebody loaded OpenCV before us, it is told now, and afterwards it may talk again."""
    levels = getattr(getattr(cv2, "utils", None), "logging", None)
    if levels is None:  # an older OpenCV, or a stand-in for it
        yield
        return
    before = levels.getLogLevel()
    levels.setLogLevel(levels.LOG_LEVEL_ERROR)
    try:
        yield
    finally:
        levels.setLogLevel(before)


def _open(place: str) -> Any:
    # OpenCV talks to standard error by itself, unless it is told not to before it is loaded; we say what is wrong.
    os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")
    try:
        cv2: Any = importlib.import_module("cv2")
    except ImportError:
        raise SourceError(f"{place}: videos, cameras and streams need OpenCV; {how_to_install('video')}") from None
    with _silent(cv2):
        capture = cv2.VideoCapture(int(place) if place.isdigit() else place)
    if not capture.isOpened():
        capture.release()
        what = "camera" if place.isdigit() or place.startswith("/dev/") else "video"
        raise SourceError(f"{place}: the {what} cannot be opened; check the number, path or address")
    return capture
