"""Where pictures come from: files, folders, patterns, videos, cameras.

A picture that cannot be read is an entry with a problem, not an end: the others still count.
"""

from __future__ import annotations

import glob
import importlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.extras import how_to_install
from openrknn.pictures import SUFFIXES as PICTURES
from openrknn.vision.errors import SourceError
from openrknn.vision.pictures import Pixels, read_picture

__all__ = ['PICTURES', 'VIDEOS', 'Entry', 'Shot', 'entries', 'is_source', 'shots']

VIDEOS = (".mp4", ".avi", ".mkv", ".mov", ".webm", ".m4v", ".mpg", ".mpeg", ".ts", ".flv", ".wmv")
_STREAM = re.compile(r"(?i)(rtsp|rtsps|rtmp|http|https|udp|tcp)://")


@dataclass(frozen=True, slots=True)
class Entry:
    """One source: a picture, a video, or something live that has no end."""

    kind: str
    """picture, video or live."""
    place: str


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture, or why it could not be read."""

    name: str
    pixels: Pixels | None
    problem: str = ""
    taken: float = 0.0
    """`time.perf_counter()` when it was read."""


def is_source(word: str) -> bool:
    """Whether a word looks like pictures: by its ending, as a folder, a pattern, a camera's number or an address."""
    if _STREAM.match(word) or os.path.isdir(word) or (word.isdigit() and not os.path.exists(word)):
        return True
    return word.lower().endswith((*PICTURES, *VIDEOS)) or (glob.has_magic(word) and not os.path.exists(word))


def entries(words: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Entry]:
    """What the words name: a file, a folder (its pictures), a pattern, a video, a camera's number or an address."""
    if isinstance(words, str | os.PathLike):
        words = [words]
    found: list[Entry] = []
    for word in words:
        found += _entries(os.fspath(word))
    return found


def _entries(word: str) -> list[Entry]:
    if _STREAM.match(word):
        return [Entry("live", word)]
    if word.isdigit() and not os.path.exists(word):
        return [Entry("live", word)]
    if os.path.isdir(word):
        inside = sorted(name for name in os.listdir(word) if _is_picture(name))
        if not inside:
            raise SourceError(f"{word}: no pictures in this folder ({' '.join(PICTURES)})")
        return [Entry("picture", os.path.join(word, name)) for name in inside]
    if os.path.exists(word):
        is_video = word.lower().endswith(VIDEOS) or word.startswith("/dev/video")
        return [Entry("live" if word.startswith("/dev/") else "video" if is_video else "picture", word)]
    if glob.has_magic(word):
        matching = sorted(path for path in glob.glob(word, recursive=True) if os.path.isfile(path))
        if matching:
            return [entry for path in matching for entry in _entries(path)]
        raise SourceError(f"{word}: no file has a name like this")
    raise SourceError(f"{word}: no such file; give a picture, a folder, a pattern, a video or the number of a camera")


def _is_picture(name: str) -> bool:
    return name.lower().endswith(PICTURES) and not name.startswith(".")


def shots(found: Sequence[Entry]) -> Iterator[Shot]:
    """The pictures, one after the other."""
    for entry in found:
        if entry.kind == "picture":
            yield _read(entry.place)
            continue
        stem = os.path.basename(entry.place) if entry.kind == "video" else re.sub(r"\W+", "_", entry.place)
        for number, pixels in enumerate(frames(entry.place, is_live=entry.kind == "live")):
            yield Shot(f"{stem}#{number:06}", pixels, taken=time.perf_counter())


def _read(path: str) -> Shot:
    try:
        return Shot(path, read_picture(path), taken=time.perf_counter())
    except SourceError as error:
        return Shot(path, None, str(error))


# Videos, cameras and network streams through OpenCV (the extra `video`).

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
