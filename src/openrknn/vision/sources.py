"""Where pictures come from: files, folders, patterns, videos, cameras (`openrknn.video.sources`).

A picture that cannot be read is an entry with a problem, not an end: the others still count.
"""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from openrknn.pictures import SUFFIXES as PICTURES
from openrknn.video.errors import VideoError
from openrknn.video.frame import VideoFrame
from openrknn.video.sources import SUFFIXES as VIDEOS
from openrknn.video.sources import Newest, VideoSource, is_live_place, is_video_place, open_source
from openrknn.vision.errors import SourceError
from openrknn.vision.pictures import Pixels, read_picture
from openrknn.vision.prefetch import prefetch

__all__ = ["PICTURES", "VIDEOS", "Entry", "OnOpen", "Shot", "entries", "is_source", "shots"]

OnOpen = Callable[[VideoSource], None]
"""Is called with each source of video when it is open."""
_FRAMES_AHEAD = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """One source: a picture, a video, or something live that has no end."""

    kind: str
    """picture, video or live."""
    place: str


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture or frame, or why it could not be read."""

    name: str
    pixels: Pixels | None
    problem: str = ""
    taken: float = 0.0
    """`time.perf_counter()` when it was read."""
    frame: VideoFrame | None = None
    """Of a video, in the place of pixels."""
    seconds: float = 0.0
    """How long capturing or decoding took, waiting included."""


def is_source(word: str) -> bool:
    """Whether a word looks like pictures: by its ending, as a folder, a pattern, a camera's number or an address."""
    if is_video_place(word) or os.path.isdir(word):
        return True
    return word.lower().endswith(PICTURES) or (glob.has_magic(word) and not os.path.exists(word))


def entries(words: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Entry]:
    """What the words name: a file, a folder (its pictures), a pattern, a video, a camera's number or an address."""
    if isinstance(words, str | os.PathLike):
        words = [words]
    found: list[Entry] = []
    for word in words:
        found += _entries(os.fspath(word))
    return found


def _entries(word: str) -> list[Entry]:
    if is_live_place(word):
        return [Entry("live", word)]
    if is_video_place(word) and (not word.lower().endswith(VIDEOS) or ":" in word):
        return [Entry("video", word)]
    if os.path.isdir(word):
        inside = sorted(name for name in os.listdir(word) if _is_picture(name))
        if not inside:
            raise SourceError(f"{word}: no pictures in this folder ({' '.join(PICTURES)})")
        return [Entry("picture", os.path.join(word, name)) for name in inside]
    if os.path.exists(word):
        return [Entry("video" if word.lower().endswith(VIDEOS) else "picture", word)]
    if glob.has_magic(word):
        matching = sorted(path for path in glob.glob(word, recursive=True) if os.path.isfile(path))
        if matching:
            return [entry for path in matching for entry in _entries(path)]
        raise SourceError(f"{word}: no file has a name like this")
    raise SourceError(f"{word}: no such file; give a picture, a folder, a pattern, a video or the number of a camera")


def _is_picture(name: str) -> bool:
    return name.lower().endswith(PICTURES) and not name.startswith(".")


def shots(found: Sequence[Entry], on_open: OnOpen | None = None) -> Iterator[Shot]:
    """The pictures and frames, one after the other. Of a live source it is always the newest."""
    for entry in found:
        if entry.kind == "picture":
            yield _read(entry.place)
        else:
            yield from _frames(entry, on_open)


def _frames(entry: Entry, on_open: OnOpen | None) -> Iterator[Shot]:
    is_file = entry.kind == "video" and os.path.exists(entry.place)
    stem = os.path.basename(entry.place) if is_file else re.sub(r"\W+", "_", entry.place)
    try:
        opened = open_source(entry.place)
        source = Newest(opened) if opened.is_live else opened
        if on_open is not None:
            on_open(source)
        timed = _timed(source)
        with closing(timed if source.is_live else prefetch(timed, _FRAMES_AHEAD)) as ahead:
            for number, (frame, seconds) in enumerate(ahead):
                yield Shot(f"{stem}#{number:06}", None, taken=time.perf_counter(), frame=frame, seconds=seconds)
    except VideoError as error:
        raise SourceError(str(error)) from error


def _timed(source: VideoSource) -> Generator[tuple[VideoFrame, float], None, None]:
    """Each frame, and how long it took to get it. The thread that reads closes the source."""
    with source:
        while True:
            started = time.perf_counter()
            frame = source.read()
            if frame is None:
                return
            yield frame, time.perf_counter() - started


def _read(path: str) -> Shot:
    try:
        return Shot(path, read_picture(path), taken=time.perf_counter())
    except SourceError as error:
        return Shot(path, None, str(error))
