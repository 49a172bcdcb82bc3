"""Where pictures come from: files, folders, patterns, videos, cameras.

A picture that cannot be read is an entry with a problem, not an end: the others still count.
"""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from openrknn.pictures import SUFFIXES as PICTURES
from openrknn.vision.errors import SourceError
from openrknn.vision.pictures import Pixels, read_picture
from openrknn.vision.video import frames

__all__ = ["PICTURES", "VIDEOS", "Entry", "Shot", "entries", "is_source", "shots"]

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
