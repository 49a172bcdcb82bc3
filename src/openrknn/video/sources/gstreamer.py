"""A GStreamer pipeline as a source: its frames stay where the pipeline has put them, as dma-bufs where it uses them."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from openrknn.pixels.formats import ColourRange, ColourSpace, PixelFormat
from openrknn.video.errors import SourceError
from openrknn.video.frame import Bytes, Plane, VideoFrame
from openrknn.video.sources.base import VideoSource, check_size, default_space
from openrknn.video.sources.gst_library import ERROR, MapInfo, launch, library, message_text
from openrknn.video.sources.problems import network_reason

__all__ = ["GstreamerSource", "has_hardware_decoder", "pipeline_for"]

_FORMATS = {
    "NV12": PixelFormat.NV12, "NV21": PixelFormat.NV21, "I420": PixelFormat.I420, "Y42B": PixelFormat.I420,
    "YUY2": PixelFormat.YUYV, "UYVY": PixelFormat.UYVY, "RGB": PixelFormat.RGB, "BGR": PixelFormat.BGR,
    "RGBA": PixelFormat.RGBA, "BGRA": PixelFormat.BGRA, "GRAY8": PixelFormat.GRAY,
}  # fmt: skip
_CAPS = f"video/x-raw,format=(string){{{','.join(_FORMATS)}}}"
_SINK = "appsink name=openrknn sync=false max-buffers=2 drop=false emit-signals=false"
_PLAYING, _PAUSED, _NULL = 4, 3, 1
_NO_PREROLL, _FAILED = 3, 0
_READ = 1
_TIMEOUT_SECONDS = 15.0
_STEP_NS = 100_000_000
_HARDWARE = ("mppvideodec", "v4l2slh264dec", "v4l2slh265dec", "v4l2slvp9dec", "v4l2slav1dec")
_NODES = ("/dev/mpp_service", "/dev/media0")
_GVALUE_BYTES = 24
_MOST_OUT = 8


def has_hardware_decoder() -> bool:
    """Whether GStreamer can use a decoder in hardware here; it is not even loaded where the kernel has none."""
    if not any(map(os.path.exists, _NODES)):
        return False
    try:
        lib = library()
    except SourceError:
        return False
    found = [lib.gst_element_factory_find(name.encode()) for name in _HARDWARE]
    for factory in filter(None, found):
        lib.gst_object_unref(factory)
    return any(found)


def pipeline_for(place: str) -> str:
    """A pipeline that decodes a file or an address with the best decoder that is installed."""
    uri = place if "://" in place else "file://" + quote(os.path.abspath(place))
    return f'uridecodebin uri="{uri}"'


class _Mapped(NamedTuple):
    """A piece of memory of a buffer: what planes need of it."""

    view: Bytes
    descriptor: int
    start: int
    """Where the piece begins in `view`."""


class GstreamerSource(VideoSource):
    """Frames of a pipeline description; one that names no `appsink` gets one at its end."""

    def __init__(self, description: str, *, place: str | None = None, timeout: float = _TIMEOUT_SECONDS) -> None:
        super().__init__(place or f"gst:{description}", is_live=False, decoder="GStreamer")
        self._lib = library()
        self._timeout = timeout
        if re.search(r"\bappsink\b", description):
            raise SourceError(f"{self.place}: leave out the appsink; it is added at the end")
        self._pipeline = launch(f'{description} ! capsfilter caps="{_CAPS}" ! {_SINK}')
        self._sink = self._lib.gst_bin_get_by_name(self._pipeline, b"openrknn")
        self._bus = self._lib.gst_element_get_bus(self._pipeline)
        self._number = 0
        self._out = 0
        """How many frames readers have."""
        self._is_closed = False
        self._reading = threading.Lock()
        """Held while the pipeline is asked: it must not be freed meanwhile."""
        paused = self._lib.gst_element_set_state(self._pipeline, _PAUSED)
        self.is_live = paused == _NO_PREROLL
        if paused == _FAILED or self._lib.gst_element_set_state(self._pipeline, _PLAYING) == _FAILED:
            text = self._problem() or "the pipeline does not start"
            self.close()
            raise SourceError(f"{self.place}: {self._reason(text)}")

    def read(self) -> VideoFrame | None:
        """The next frame."""
        sample = 0
        with self._reading:
            for _ in range(int(self._timeout * 1e9 / _STEP_NS) + 1):
                if self._is_closed:
                    raise SourceError(f"{self.place}: the pipeline is closed")
                sample = self._lib.gst_app_sink_try_pull_sample(self._sink, _STEP_NS)
                if sample:
                    break
                if (text := self._problem()) is not None:
                    raise SourceError(f"{self.place}: {self._reason(text)}")
                if self._lib.gst_app_sink_is_eos(self._sink):
                    self._check_end()
                    return None
        if not sample:
            raise SourceError(f"{self.place}: no frame for {self._timeout:g} s; check the source")
        try:
            return self._frame(sample)
        except BaseException:
            self._lib.gst_mini_object_unref(sample)
            raise

    def _check_end(self) -> None:
        if not self._number:
            raise SourceError(f"{self.place}: it ended without a frame; check the source")
        if self.is_live and self.place.lower().startswith("rtsp"):
            raise SourceError(f"{self.place}: the stream ended; check the source")

    def _frame(self, sample: int) -> VideoFrame:
        lib = self._lib
        caps = lib.gst_caps_get_structure(lib.gst_sample_get_caps(sample), 0)
        width, height = _integer(lib, caps, b"width"), _integer(lib, caps, b"height")
        name = (lib.gst_structure_get_string(caps, b"format") or b"").decode()
        check_size(self.place, width, height)
        buffer = lib.gst_sample_get_buffer(sample)
        offsets, strides = _layout(lib, buffer, name, width, height)
        memories, unmap = _mapped(lib, buffer)
        # A decoder in hardware has few buffers: a reader that keeps many frames gets copies of further ones.
        is_kept = self._out < _MOST_OUT
        if not is_kept:
            memories = [_Mapped(memory.view.copy(), -1, memory.start) for memory in memories]
            unmap()
        try:
            planes = [self._plane(buffer, memories, *where) for where in zip(offsets, strides, strict=True)]
            colours = (lib.gst_structure_get_string(caps, b"colorimetry") or b"").decode()
            space, colour_range = _colours(colours, height)

            def release() -> None:
                unmap()
                lib.gst_mini_object_unref(sample)
                self._out -= 1

            frame = VideoFrame(
                _FORMATS[name], width, height, planes, colour_space=space, colour_range=colour_range,
                number=self._number, copies=int(not is_kept), release=release if is_kept else None,
            )  # fmt: skip
        except BaseException:
            unmap()
            raise
        if is_kept:
            self._out += 1
        else:
            lib.gst_mini_object_unref(sample)
        if not self._number:
            self.decoder = self._named_decoder()
        self._number += 1
        return frame

    def _plane(self, buffer: int, memories: list[_Mapped], offset: int, stride: int) -> Plane:
        index, count, skip = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_size_t()
        if not self._lib.gst_buffer_find_memory(
            buffer, offset, 1, ctypes.byref(index), ctypes.byref(count), ctypes.byref(skip)
        ):
            raise SourceError(f"{self.place}: a plane begins at byte {offset}, behind the end of its buffer")
        memory = memories[index.value]
        return Plane(memory.start + skip.value, stride, memory.descriptor, memory.view)

    def _problem(self) -> str | None:
        message = self._lib.gst_bus_timed_pop_filtered(self._bus, 0, ERROR)
        return message_text(message) if message else None

    @staticmethod
    def _reason(text: str) -> str:
        if "not-negotiated" in text or "not negotiate" in text.lower():
            return f"its frames are in none of the formats {' '.join(_FORMATS)}; add `! videoconvert` at the end"
        first, _, details = text.partition("\n")
        return network_reason(f"{details}\n{first}")

    def _named_decoder(self) -> str:
        """What decodes, from the elements of the pipeline."""
        names = [
            f"{name} in {'hardware' if 'Hardware' in kind or name.startswith(('mpp', 'v4l2')) else 'software'}"
            for name, kind in _elements(self._lib, self._pipeline)
            if "Decoder" in kind and "Video" in kind + "Video" * ("Image" in kind)
        ]
        return f"{', '.join(dict.fromkeys(names)) or 'no decoder'} (GStreamer)"

    def close(self) -> None:
        """Stop the pipeline. Frames that readers still have stay readable. Closing twice is allowed."""
        if self._is_closed:
            return
        self._is_closed = True
        with self._reading:
            self._lib.gst_element_set_state(self._pipeline, _NULL)
            for thing in (self._sink, self._bus, self._pipeline):
                self._lib.gst_object_unref(thing)


def _integer(lib: Any, caps: int, name: bytes) -> int:
    value = ctypes.c_int()
    return value.value if lib.gst_structure_get_int(caps, name, ctypes.byref(value)) else 0


def _layout(lib: Any, buffer: int, name: str, width: int, height: int) -> tuple[list[int], list[int]]:
    """Offsets and strides of the planes: as the buffer's metadata says, else GStreamer's defaults."""
    if name not in _FORMATS:
        raise SourceError(f"gst: frames in {name or 'an unknown memory layout'}; add `! videoconvert` at the end")
    count = len(_FORMATS[name].planes)
    meta = lib.gst_buffer_get_video_meta(buffer)
    if meta:
        offsets, strides = list(meta.contents.offset[:count]), list(meta.contents.stride[:count])
    else:
        offsets, strides, at = [], [], 0
        for number, layout in enumerate(_FORMATS[name].planes):
            stride = -(-layout.row_bytes(width + (width & 1 if count > 1 else 0)) // 4) * 4
            rows = height + (height & 1 if count > 1 and name != "Y42B" else 0)
            offsets.append(at)
            strides.append(stride)
            at += stride * (rows if name == "Y42B" or not number else -(-rows // layout.vertical))
    if name == "Y42B":  # 4:2:2 is read as 4:2:0 by leaving out every second row of chroma
        strides = [strides[0], 2 * strides[1], 2 * strides[2]]
    return offsets, strides


def _mapped(lib: Any, buffer: int) -> tuple[list[_Mapped], Callable[[], None]]:
    """Every piece of memory of the buffer, and what unmaps them again."""
    pieces: list[_Mapped] = []
    done: list[tuple[int, MapInfo]] = []

    def unmap() -> None:
        for memory, info in done:
            lib.gst_memory_unmap(memory, ctypes.byref(info))
        done.clear()

    for number in range(lib.gst_buffer_n_memory(buffer)):
        memory, info = lib.gst_buffer_peek_memory(buffer, number), MapInfo()
        if not lib.gst_memory_map(memory, ctypes.byref(info), _READ):
            unmap()
            raise SourceError("gst: a buffer cannot be mapped; add `! videoconvert` at the end of the pipeline")
        done.append((memory, info))
        start, descriptor = 0, -1
        if lib.gst_is_dmabuf_memory(memory):
            # Offsets of a descriptor count from the beginning of its memory, which may be earlier.
            offset = ctypes.c_size_t()
            lib.gst_memory_get_sizes(memory, ctypes.byref(offset), None)
            start, descriptor = offset.value, lib.gst_dmabuf_memory_get_fd(memory)
        size = info.size + start
        data = (ctypes.c_uint8 * size).from_address((info.data or 0) - start)
        pieces.append(_Mapped(np.frombuffer(data, np.uint8), descriptor, start))
    return pieces, unmap


def _colours(text: str, height: int) -> tuple[ColourSpace, ColourRange]:
    """From "bt709" or "range:matrix:transfer:primaries"."""
    numbers = text.split(":")
    if len(numbers) == 4:
        space = {"3": ColourSpace.BT709, "4": ColourSpace.BT601, "6": ColourSpace.BT2020}.get(numbers[1])
        full = numbers[0] == "1"
    else:
        known = {"bt601": ColourSpace.BT601, "bt709": ColourSpace.BT709, "bt2020": ColourSpace.BT2020}
        space, full = known.get(text), False
    return space or default_space(height), ColourRange.FULL if full else ColourRange.LIMITED


def _elements(lib: Any, pipeline: int) -> list[tuple[str, str]]:
    """Name and class of the factory of every element."""
    found: list[tuple[str, str]] = []
    walk, value = lib.gst_bin_iterate_recurse(pipeline), ctypes.create_string_buffer(_GVALUE_BYTES)
    while lib.gst_iterator_next(walk, value) == 1:
        factory = lib.gst_element_get_factory(lib.g_value_get_object(value))
        if factory:
            name = lib.gst_object_get_name(factory)
            kind = lib.gst_element_factory_get_metadata(factory, b"klass") or b""
            found.append((ctypes.string_at(name).decode(), kind.decode()))
            lib.g_free(name)
        lib.g_value_reset(value)
    lib.gst_iterator_free(walk)
    return found
