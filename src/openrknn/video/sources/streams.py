"""Video in the order of its bytes, from a file or standard input: Y4M, raw frames, and JPEG after JPEG.

A file is mapped, so that its frames are views of it; what comes through a pipe is read once, which is a copy.
"""

from __future__ import annotations

import mmap
import os
import stat
import time
from fractions import Fraction

import numpy as np

from openrknn.pixels.formats import ColourRange, PixelFormat
from openrknn.video.errors import SourceError
from openrknn.video.frame import Bytes, Plane, VideoFrame
from openrknn.video.sources.base import VideoSource, check_size, default_space
from openrknn.video.sources.jpeg import JpegDecoder, end_of_jpeg

__all__ = ["ByteReader", "JpegSource", "RawSource", "Y4mSource", "open_bytes"]

_MAGIC = b"YUV4MPEG2"
_LONGEST_LINE = 4096
_CHUNK = 1 << 16
_LARGEST_JPEG = 64 << 20


class ByteReader:
    """Bytes of a descriptor, which it owns: views of a mapped file, or arrays that a pipe was read into."""

    def __init__(self, descriptor: int, name: str) -> None:
        self.name = name
        self._descriptor = descriptor
        status = os.fstat(descriptor)
        is_file = stat.S_ISREG(status.st_mode) and status.st_size > 0
        self.map = mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) if is_file else None
        self._view: Bytes | None = None if self.map is None else np.frombuffer(self.map, np.uint8)
        self._at = 0 if self.map is None else os.lseek(descriptor, 0, os.SEEK_CUR)
        self._ahead = bytearray()
        """Of a pipe: read, but not taken yet."""

    @property
    def copies(self) -> int:
        """For each byte that is taken."""
        return int(self.map is None)

    def peek(self, count: int) -> bytes:
        """The next bytes, fewer at the end."""
        if self.map is not None:
            return self.map[self._at : self._at + count]
        while len(self._ahead) < count and (more := self._read(_CHUNK)):
            self._ahead += more
        return bytes(self._ahead[:count])

    def take(self, count: int, what: str) -> Bytes | None:
        """Exactly this many bytes; None at the end. An end inside of them is an error."""
        taken = self._from_map(count) if self._view is not None else self._from_pipe(count)
        if 0 < len(taken) < count:
            raise SourceError(f"{self.name}: {what} has {len(taken)} of {count} bytes; the stream is truncated")
        return taken if len(taken) or not count else None

    def _from_map(self, count: int) -> Bytes:
        assert self._view is not None
        taken = self._view[self._at : self._at + count]
        self._at += len(taken)
        return taken

    def _from_pipe(self, count: int) -> Bytes:
        array = np.empty(count, np.uint8)
        have = min(len(self._ahead), count)
        array[:have] = self._ahead[:have]
        del self._ahead[:have]
        view = array.data
        while have < count and (more := os.readv(self._descriptor, [view[have:]])):
            have += more
        return array[:have]

    def line(self) -> bytes | None:
        """Up to a line feed, without it; None at the end."""
        size = 128
        head = self.peek(size)
        if not head:
            return None
        while b"\n" not in head and len(head) == size < _LONGEST_LINE:
            size *= 2
            head = self.peek(size)
        text, feed, _ = head.partition(b"\n")
        if not feed:
            raise SourceError(f"{self.name}: a header line does not end; this is not Y4M")
        self.take(len(text) + 1, "a header")
        return text

    def jpeg(self) -> bytes | None:
        """The next JPEG image; None at the end."""
        if self.map is not None:
            if self._at >= len(self.map):
                return None
            end = end_of_jpeg(self.map, self._at, self.name)
            if end is not None:
                start, self._at = self._at, end
                return self.map[start:end]
        else:
            while not self._ahead or (end := end_of_jpeg(self._ahead, 0, self.name)) is None:
                if len(self._ahead) > _LARGEST_JPEG:
                    raise SourceError(f"{self.name}: a JPEG image has more than {_LARGEST_JPEG} bytes")
                more = self._read(_CHUNK)
                if not more and not self._ahead:
                    return None
                if not more:
                    break
                self._ahead += more
            else:
                data = bytes(self._ahead[:end])
                del self._ahead[:end]
                return data
        raise SourceError(f"{self.name}: the last JPEG image has no end; the stream is truncated")

    def _read(self, count: int) -> bytes:
        return os.read(self._descriptor, count)

    def close(self) -> None:
        """The mapping stays as long as frames of it are in use."""
        self._view = None
        if self._descriptor > 2:
            os.close(self._descriptor)
        self._descriptor = 0


def open_bytes(place: str, name: str | None = None) -> VideoSource:
    """A file or standard input ("-") whose first bytes say what it is: Y4M or JPEG."""
    reader = ByteReader(_descriptor(place), name or ("standard input" if place == "-" else place))
    head = reader.peek(len(_MAGIC))
    if head == _MAGIC:
        return Y4mSource(reader)
    if head[:2] == b"\xff\xd8":
        return JpegSource(reader)
    reader.close()
    if not head:
        raise SourceError(f"{reader.name}: it is empty; is the program that writes it running?")
    raise SourceError(
        f"{reader.name}: neither Y4M nor JPEG; for raw frames name format and size: raw:nv12:1920x1080:{place}"
    )


def _descriptor(place: str) -> int:
    if place == "-":
        return 0
    try:
        return os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SourceError(f"{place}: {error.strerror}; check the path") from None


class _Counted(VideoSource):
    """Numbers and times of frames whose stream has a rate, or none."""

    def __init__(self, reader: ByteReader, decoder: str) -> None:
        super().__init__(reader.name, is_live=False, decoder=decoder)
        self._reader = reader
        self._rate: Fraction | None = None
        self._number = 0
        self._started = time.perf_counter()

    def _next(self) -> tuple[float, int]:
        """Time and number of the frame that is read now."""
        number = self._number
        self._number += 1
        return (time.perf_counter() - self._started if self._rate is None else float(number / self._rate)), number

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._reader.close()


class RawSource(_Counted):
    """Frames of one size and format, one after the other, rows without padding."""

    def __init__(self, pixel_format: PixelFormat, width: int, height: int, place: str) -> None:
        name = "standard input" if place == "-" else place
        check_size(name, width, height)
        super().__init__(ByteReader(_descriptor(place), name), "none (raw frames)")
        self._format, self._size = pixel_format, (width, height)
        self._bytes = sum(layout.rows(height) * layout.row_bytes(width) for layout in pixel_format.planes)

    def read(self) -> VideoFrame | None:
        """The next frame."""
        data = self._reader.take(self._bytes, f"frame {self._number}")
        if data is None:
            return None
        seconds, number = self._next()
        return VideoFrame.of_bytes(
            self._format, *self._size, data, colour_space=default_space(self._size[1]), time=seconds, number=number,
            copies=self._reader.copies,
        )  # fmt: skip


_CHROMA = {"420": 2, "422": 1, "mono": 0}
"""Rows of the image for each row of chroma; 0: there is none."""


class Y4mSource(_Counted):
    """YUV4MPEG2, as ffmpeg, GStreamer and mjpegtools write it."""

    def __init__(self, reader: ByteReader) -> None:
        super().__init__(reader, "none (Y4M)")
        line = reader.line() or b""
        words = line.decode("ascii", "replace").split(" ")
        found = {word[0]: word[1:] for word in words[1:] if word and word[0] != "X"}
        self._width, self._height = (_number(reader.name, name, found.get(name, "")) for name in "WH")
        check_size(reader.name, self._width, self._height)
        self._range = ColourRange.FULL if "XCOLORRANGE=FULL" in words else ColourRange.LIMITED
        self._rate = _rate(found.get("F", ""))
        colours = found.get("C", "420jpeg")
        kind = next((kind for kind in _CHROMA if colours.startswith(kind) and "p1" not in colours), None)
        if kind is None:
            reader.close()
            raise SourceError(f"{reader.name}: Y4M in {colours}; 420, 422 and mono with 8 bits are supported")
        self._planes(_CHROMA[kind])

    def _planes(self, step: int) -> None:
        """`step`: how many rows of the image a row of chroma is for; 0: there is none."""
        self._format = PixelFormat.I420 if step else PixelFormat.GRAY
        luma, width, rows = self._width * self._height, -(-self._width // 2), -(-self._height // max(step, 1))
        # 4:2:2 is read as 4:2:0 by leaving out every second row of chroma.
        stride = width * (2 // step) if step else 0
        self._offsets = [(0, self._width), (luma, stride), (luma + width * rows, stride)][: 3 if step else 1]
        self._bytes = luma + (2 * width * rows if step else 0)

    def read(self) -> VideoFrame | None:
        """The next frame."""
        line = self._reader.line()
        if line is None:
            return None
        if line.split(b" ")[0] != b"FRAME":
            raise SourceError(f"{self.place}: frame {self._number} begins with {line[:16]!r} instead of FRAME")
        data = self._reader.take(self._bytes, f"frame {self._number}")
        if data is None:
            raise SourceError(f"{self.place}: frame {self._number} has 0 of {self._bytes} bytes; it is truncated")
        seconds, number = self._next()
        planes = [Plane(offset, stride, memory=data) for offset, stride in self._offsets]
        return VideoFrame(
            self._format, self._width, self._height, planes, colour_space=default_space(self._height),
            colour_range=self._range, time=seconds, number=number, copies=self._reader.copies,
        )  # fmt: skip


def _number(name: str, field: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise SourceError(f"{name}: the Y4M header has {field}{text} as a size; the file is damaged")
    return int(text)


def _rate(text: str) -> Fraction | None:
    above, _, below = text.partition(":")
    if above.isdigit() and below.isdigit() and int(above) and int(below):
        return Fraction(int(above), int(below))
    return None


class JpegSource(_Counted):
    """JPEG images one after the other (Motion JPEG)."""

    def __init__(self, reader: ByteReader) -> None:
        self._decoder = JpegDecoder()
        super().__init__(reader, self._decoder.name)

    def read(self) -> VideoFrame | None:
        """The next frame."""
        data = self._reader.jpeg()
        if data is None:
            return None
        seconds, number = self._next()
        return self._decoder.decode(data, self.place, time=seconds, number=number)
