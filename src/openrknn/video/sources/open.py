"""Which source a word names: a camera, a file, an address, a pipeline, or standard input."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
from collections.abc import Callable
from urllib.parse import parse_qsl

from openrknn.pixels.formats import PixelFormat
from openrknn.video.errors import SourceError
from openrknn.video.sources.base import VideoSource
from openrknn.video.sources.streams import RawSource, open_bytes

__all__ = ["SCHEMES", "SUFFIXES", "is_live_place", "is_video_place", "open_source"]

SUFFIXES = (
    ".mp4", ".avi", ".mkv", ".mov", ".webm", ".m4v", ".mpg", ".mpeg", ".ts", ".flv", ".wmv", ".y4m", ".mjpg", ".mjpeg",
    ".h264", ".h265", ".hevc",
)  # fmt: skip
"""Endings of files with video."""
_BYTES = (".y4m", ".mjpg", ".mjpeg")
SCHEMES = ("gst:", "ffmpeg:", "pyav:", "opencv:", "raw:")
"""In front of a place: how it is read."""
_ADDRESS = re.compile(r"(?i)(rtsp|rtsps|rtmp|http|https|udp|tcp|srt)://")
_SIZE = re.compile(r"(\d{1,6})x(\d{1,6})")
_CAMERA = re.compile(r"(\d{1,4}|/dev/[^?]+)(?:\?(.*))?")


def is_video_place(word: str) -> bool:
    """Whether a word names video by its form alone: standard input, a pipeline, an address, a camera, an ending."""
    if word == "-" or word.startswith(SCHEMES) or _ADDRESS.match(word):
        return True
    return (_camera(word) is not None and not os.path.isfile(word)) or word.lower().endswith(SUFFIXES)


def is_live_place(word: str) -> bool:
    """Whether frames come by themselves, so that they are dropped when there is no time for them."""
    inner = word.split(":", 1)[1] if word.startswith(("ffmpeg:", "pyav:", "opencv:")) else word
    return bool(_ADDRESS.match(inner)) or (_camera(inner) is not None and not os.path.isfile(inner))


def _camera(word: str) -> tuple[str, str] | None:
    """Number or device of a camera, and its options."""
    found = _CAMERA.fullmatch(word)
    return (found[1], found[2] or "") if found and not found[1].startswith(("/dev/shm/", "/dev/fd/")) else None


def open_source(place: str | os.PathLike[str]) -> VideoSource:
    """The source that a word names.

    "0" or "/dev/video0" (also "0?size=1280x720&fps=30&format=yuyv"): a camera. "rtsp://...": a stream. "-": Y4M or
    Motion JPEG on standard input; "raw:nv12:1920x1080:-": raw frames. "gst:videotestsrc ! ...": a GStreamer pipeline.
    Else a file. "ffmpeg:", "pyav:" and "opencv:" in front of a file or an address choose the decoder.
    """
    word = os.fspath(place)
    scheme, _, rest = word.partition(":")
    if word.startswith("gst:"):
        from openrknn.video.sources.gstreamer import GstreamerSource

        return GstreamerSource(rest)
    if word.startswith("raw:"):
        return _raw(word, rest)
    if word.startswith(SCHEMES):
        return _BACKENDS[scheme](rest, is_live_place(rest))
    if word == "-":
        return open_bytes("-")
    camera = _camera(word)
    if camera is not None and not os.path.isfile(word):
        return _open_camera(word, *camera)
    if not _ADDRESS.match(word):
        if not os.path.exists(word):
            raise SourceError(f"{word}: no such file; check the path")
        if word.lower().endswith(_BYTES):
            return open_bytes(word)
    return _decoded(word, is_live_place(word))


def _raw(word: str, rest: str) -> VideoSource:
    name, size, place = (*rest.split(":", 2), "", "")[:3]
    found = _SIZE.fullmatch(size)
    known = {kind.value: kind for kind in PixelFormat}
    if name not in known or found is None or not place:
        raise SourceError(
            f"{word}: write raw:FORMAT:WIDTHxHEIGHT:FILE, such as raw:nv12:1920x1080:-; formats: {', '.join(known)}"
        )
    return RawSource(known[name], int(found[1]), int(found[2]), place)


def _open_camera(word: str, device: str, options: str) -> VideoSource:
    if sys.platform != "linux":
        return _opencv(device, True)
    from openrknn.video.sources.v4l2 import V4l2Camera

    chosen = dict(parse_qsl(options))
    size, fps = _SIZE.fullmatch(chosen.pop("size", "0x0")), chosen.pop("fps", "0")
    wish = chosen.pop("format", None)
    if chosen or size is None or not fps.isdecimal() or len(fps) > 4:
        raise SourceError(
            f"{word}: options of a camera are size=WIDTHxHEIGHT, fps=N and format=NAME: 0?size=1280x720&fps=30"
        )
    wanted = (int(size[1]), int(size[2]))
    return V4l2Camera(device, size=wanted if any(wanted) else None, fps=int(fps) or None, pixel_format=wish)


def _gstreamer(place: str, is_live: bool) -> VideoSource:
    from openrknn.video.sources.gstreamer import GstreamerSource, pipeline_for

    source = GstreamerSource(pipeline_for(place), place=place)
    source.is_live = source.is_live or is_live
    return source


def _has_av() -> bool:
    try:
        importlib.import_module("av")
    except ImportError:
        return False
    return True


def _pyav(place: str, is_live: bool) -> VideoSource:
    if not _has_av():
        raise SourceError(f"{place}: PyAV is not installed (`pip install av`)")
    from openrknn.video.sources.pyav import PyavSource

    return PyavSource(place, is_live=is_live)


def _ffmpeg(place: str, is_live: bool) -> VideoSource:
    from openrknn.video.sources.ffmpeg import FfmpegSource

    return FfmpegSource(place, is_live=is_live)


def _opencv(place: str, is_live: bool) -> VideoSource:
    from openrknn.video.sources.opencv import OpencvSource

    return OpencvSource(place, is_live=is_live)


_BACKENDS: dict[str, Callable[[str, bool], VideoSource]] = {
    "gst": _gstreamer, "pyav": _pyav, "ffmpeg": _ffmpeg, "opencv": _opencv,
}  # fmt: skip


def _decoded(place: str, is_live: bool) -> VideoSource:
    """By the first of: hardware through GStreamer, PyAV, ffmpeg, OpenCV. Nothing is tried after one that is here."""
    from openrknn.video.sources.gstreamer import has_hardware_decoder

    if has_hardware_decoder():
        return _gstreamer(place, is_live)
    if _has_av():
        return _pyav(place, is_live)
    if shutil.which("ffmpeg") is not None:
        return _ffmpeg(place, is_live)
    return _opencv(place, is_live)
