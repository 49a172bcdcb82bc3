"""Files and streams through PyAV (FFmpeg's libraries in this process): frames stay in the decoder's memory."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from openrknn.pixels.formats import ColourRange, ColourSpace, PixelFormat
from openrknn.video.errors import SourceError
from openrknn.video.frame import Plane, VideoFrame
from openrknn.video.sources.base import VideoSource, check_size, default_space
from openrknn.video.sources.problems import network_reason

__all__ = ["PyavSource", "frame_of"]

_FORMATS = {
    "yuv420p": PixelFormat.I420, "yuvj420p": PixelFormat.I420, "yuv422p": PixelFormat.I420,
    "yuvj422p": PixelFormat.I420, "nv12": PixelFormat.NV12, "nv21": PixelFormat.NV21, "yuyv422": PixelFormat.YUYV,
    "uyvy422": PixelFormat.UYVY, "rgb24": PixelFormat.RGB, "bgr24": PixelFormat.BGR, "rgba": PixelFormat.RGBA,
    "bgra": PixelFormat.BGRA, "gray": PixelFormat.GRAY,
}  # fmt: skip
_FULL_CHROMA_ROWS = ("yuv422p", "yuvj422p")
_SPACES = {1: ColourSpace.BT709, 5: ColourSpace.BT601, 6: ColourSpace.BT601, 9: ColourSpace.BT2020}
"""Numbers of ISO/IEC 23091-2."""
_FULL_RANGE = 2
_HARDWARE = ("rkmpp", "v4l2m2m")
_NODES = ("/dev/mpp_service", "/dev/video0", "/dev/video10")
_OPEN_SECONDS, _READ_SECONDS = 10.0, 10.0


def frame_of(picture: Any, **details: Any) -> tuple[VideoFrame, str]:
    """A frame of PyAV as it is stored, and a note where it had to be converted.

    4:2:2 is read as 4:2:0 by leaving out every second row of chroma, so no byte is moved.
    """
    name, note = picture.format.name, ""
    if name not in _FORMATS:
        note = f"frames in {name} are converted to yuv420p by the CPU"
        picture, name = picture.reformat(format="yuv420p"), "yuv420p"
        details["copies"] = details.get("copies", 0) + 1
    pixel_format = _FORMATS[name]
    planes = []
    for number, source in enumerate(picture.planes[: len(pixel_format.planes)]):
        step = 2 if number and name in _FULL_CHROMA_ROWS else 1
        planes.append(Plane(0, source.line_size * step, memory=np.frombuffer(source, np.uint8)))
    is_full = int(picture.color_range) == _FULL_RANGE or name.startswith("yuvj")
    # JPEG is defined with the colours of BT.601; others take what their size suggests.
    space = _SPACES.get(int(picture.colorspace), ColourSpace.BT601 if is_full else default_space(picture.height))
    frame = VideoFrame(
        pixel_format, picture.width, picture.height, planes, colour_space=space,
        colour_range=ColourRange.FULL if is_full else ColourRange.LIMITED, **details,
    )  # fmt: skip
    return frame, note


class PyavSource(VideoSource):
    """A file or an address."""

    def __init__(self, place: str, *, is_live: bool) -> None:
        super().__init__(place, is_live=is_live, decoder="PyAV")
        self._av: Any = importlib.import_module("av")
        self._problem = self._av.error.FFmpegError
        options = {"rtsp_transport": "tcp"} if place.lower().startswith("rtsp") else {}
        try:
            self._container = self._av.open(place, options=options, timeout=(_OPEN_SECONDS, _READ_SECONDS))
        except (self._problem, OSError, ValueError) as error:
            raise SourceError(f"{place}: {network_reason(str(error))}") from None
        self._closed = False
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        if not self._container.streams.video:
            raise SourceError(f"{self.place}: there is no video in it; check the source")
        stream = self._container.streams.video[0]
        if stream.codec_context is None:
            raise SourceError(f"{self.place}: no decoder for its video; install another FFmpeg, or use GStreamer")
        if stream.codec_context.width and stream.codec_context.height:
            check_size(self.place, stream.codec_context.width, stream.codec_context.height)
        codec = stream.codec_context.name
        self._context, how = self._hardware(stream, codec), "hardware"
        if self._context is None:
            stream.thread_type = "AUTO"
            self._context, how = stream.codec_context, "software"
        self.decoder = f"{self._context.name} in {how} (PyAV)"
        self._base = stream.time_base
        self._packets = self._container.demux(stream)
        self._waiting: list[Any] = []
        self._number = 0
        self._first: int | None = None

    def _hardware(self, stream: Any, codec: str) -> Any:
        """A decoder in hardware that opens; None where there is none."""
        if not any(map(os.path.exists, _NODES)):
            return None
        for suffix in _HARDWARE:
            try:
                context = self._av.CodecContext.create(f"{codec}_{suffix}", "r")
                context.extradata = stream.codec_context.extradata
                context.open()
            except (self._problem, ValueError, OSError):
                continue
            return context
        self.notes += (f"{codec} is decoded in software: PyAV has no decoder for this board's hardware",)
        return None

    def read(self) -> VideoFrame | None:
        """The next frame."""
        while not self._waiting:
            try:
                packet = next(self._packets, None)
                if packet is None:
                    self._check_end()
                    return None
                self._waiting = list(self._context.decode(packet))
            except self._av.error.EOFError:
                self._check_end()
                return None
            except self._av.error.InvalidDataError:
                self.dropped += 1  # damaged: the next packet may be a whole one
            except (self._problem, OSError) as error:
                raise SourceError(f"{self.place}: {network_reason(str(error))}") from None
        return self._next(self._waiting.pop(0))

    def _next(self, picture: Any) -> VideoFrame:
        check_size(self.place, picture.width, picture.height)
        stamp = picture.pts
        self._first = stamp if self._first is None else self._first
        seconds = 0.0 if stamp is None or self._first is None else float((stamp - self._first) * self._base)
        frame, note = frame_of(picture, time=seconds, number=self._number)
        if note and note not in self.notes:
            self.notes += (note,)
        self._number += 1
        return frame

    def _check_end(self) -> None:
        if self.is_live:
            raise SourceError(f"{self.place}: the stream ended; check the source")
        if not self._number:
            raise SourceError(f"{self.place}: no frame could be decoded; the file is damaged")

    def close(self) -> None:
        """Close the file or the connection; frames stay readable."""
        if not self._closed:
            self._closed = True
            self._container.close()
