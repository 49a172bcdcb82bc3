"""JPEG to a frame: where one ends in a stream, and its decoding by PyAV (planes stay YUV) or Pillow (RGB)."""

from __future__ import annotations

import importlib
from io import BytesIO
from typing import Any

import numpy as np

from openrknn.extras import how_to_install
from openrknn.pixels.formats import PixelFormat
from openrknn.video.errors import SourceError
from openrknn.video.frame import VideoFrame
from openrknn.video.sources.base import check_size

__all__ = ["JpegDecoder", "end_of_jpeg", "size_of_jpeg"]

_START, _END, _SCAN = 0xD8, 0xD9, 0xDA
_ALONE = frozenset((0x01, *range(0xD0, 0xD8)))
"""Markers without a length: TEM and the restarts inside a scan."""
_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers whose segment has the size of the image."""


def end_of_jpeg(data: Any, start: int, name: str) -> int | None:
    """Where the image that begins at `start` ends in `data` (bytes, bytearray, mmap); None: it goes on behind.

    It walks from segment to segment: the thumbnail inside an image has an end of its own.
    """
    found = _walk(data, start, name)
    return None if found is None else found[0]


def size_of_jpeg(data: Any, name: str) -> tuple[int, int]:
    """Width and height of a whole image, from its header."""
    found = _walk(data, 0, name)
    if found is None:
        raise SourceError(f"{name}: a JPEG image of {len(data)} bytes has no end; the recording is truncated")
    return found[1], found[2]


def _walk(data: Any, start: int, name: str) -> tuple[int, int, int] | None:
    if len(data) < start + 2:
        return None
    if data[start] != 0xFF or data[start + 1] != _START:
        raise SourceError(f"{name}: byte {start} should begin a JPEG image (ff d8), and does not")
    at, width, height = start + 2, 0, 0
    while at + 4 <= len(data) or at + 2 == len(data):
        if data[at] != 0xFF:
            raise SourceError(f"{name}: no JPEG marker at byte {at}; the stream is damaged")
        marker = data[at + 1]
        if marker == 0xFF:  # fill bytes
            at += 1
        elif marker == _END:
            return at + 2, width, height
        elif marker in _ALONE:
            at += 2
        elif at + 4 > len(data):
            return None
        else:
            length = _length(data, at, name)
            if marker in _SIZES and at + 9 <= len(data):
                height, width = data[at + 5] << 8 | data[at + 6], data[at + 7] << 8 | data[at + 8]
            at += 2 + length
            if marker == _SCAN:
                at = _end_of_scan(data, at)
                if at < 0:
                    return None
    return None


def _length(data: Any, at: int, name: str) -> int:
    length = int(data[at + 2] << 8 | data[at + 3])
    if length < 2:
        raise SourceError(f"{name}: a JPEG segment of {length} bytes at byte {at}; the stream is damaged")
    return length


def _end_of_scan(data: Any, at: int) -> int:
    """The next marker that is no restart and no stuffed byte; -1: it is not here yet."""
    while True:
        at = data.find(b"\xff", at)
        if at < 0 or at + 1 >= len(data):
            return -1
        following = data[at + 1]
        if following != 0 and following not in _ALONE:
            return int(at)
        at += 2 if following != 0xFF else 1


class JpegDecoder:
    """One image after the other. `name` says who decodes."""

    def __init__(self) -> None:
        self._context: Any = None
        try:
            self._av: Any = importlib.import_module("av")
        except ImportError:
            self._av = None
        self.name = "JPEG in software (PyAV)" if self._av is not None else "JPEG in software (Pillow)"

    def decode(self, data: bytes, name: str, **details: Any) -> VideoFrame:
        """A frame of its own memory; `details` are those of `VideoFrame`."""
        check_size(name, *size_of_jpeg(data, name))
        return self._by_av(data, name, details) if self._av is not None else _by_pillow(data, name, details)

    def _by_av(self, data: bytes, name: str, details: dict[str, Any]) -> VideoFrame:
        from openrknn.video.sources.pyav import frame_of

        if self._context is None:
            self._context = self._av.CodecContext.create("mjpeg", "r")
            self._context.thread_count = 1  # several would give each frame late
        try:
            (picture,) = self._context.decode(self._av.Packet(data)) or [None]
        except (self._av.error.FFmpegError, ValueError) as error:
            raise SourceError(f"{name}: a JPEG image cannot be decoded: {error}") from None
        if picture is None:
            raise SourceError(f"{name}: a JPEG image cannot be decoded; the stream is damaged")
        frame, _ = frame_of(picture, **details)
        return frame


def _by_pillow(data: bytes, name: str, details: dict[str, Any]) -> VideoFrame:
    try:
        image: Any = importlib.import_module("PIL.Image")
    except ImportError:
        raise SourceError(f"{name}: JPEG images need Pillow; {how_to_install('images')}") from None
    try:
        with image.open(BytesIO(data), formats=["JPEG"]) as opened:
            pixels = np.asarray(opened.convert("RGB"), np.uint8)
    except (OSError, ValueError, SyntaxError) as error:
        raise SourceError(f"{name}: a JPEG image cannot be decoded: {error}") from None
    height, width = pixels.shape[:2]
    # Pillow has written the pixels once more, into the array.
    details["copies"] = details.get("copies", 0) + 1
    return VideoFrame.of_bytes(PixelFormat.RGB, width, height, pixels.reshape(-1), **details)
