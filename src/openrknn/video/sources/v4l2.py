"""A V4L2 camera: its frames stay in the driver's buffers, mapped and as dma-buf descriptors."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import select
import threading
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from openrknn.pixels.formats import ColourRange, ColourSpace
from openrknn.uapi import drm, v4l2
from openrknn.uapi.ioctl import Ioctl
from openrknn.video.errors import SourceError
from openrknn.video.frame import Bytes, Plane, VideoFrame
from openrknn.video.sources.base import VideoSource, check_size, default_space
from openrknn.video.sources.jpeg import JpegDecoder
from openrknn.video.sources.v4l2_format import FORMATS, Layout, layout_of, preferred

__all__ = ["V4l2Camera", "camera_path"]

_BUFFERS = 6
_RESERVE = 2
"""Buffers that the driver always has: a reader that keeps frames gets copies of further ones."""
_MOST_FAILURES = 10
"""Damaged frames in a row, after which the camera counts as broken."""
_SPACES = {
    v4l2.YCBCR_601: ColourSpace.BT601,
    v4l2.YCBCR_709: ColourSpace.BT709,
    v4l2.YCBCR_BT2020: ColourSpace.BT2020,
}


class _Memory(NamedTuple):
    """One buffer of the driver, or one plane of it."""

    view: Bytes
    descriptor: int


def camera_path(place: str) -> str:
    """The device of a camera's number."""
    return f"/dev/video{place}" if place.isdigit() else place


class V4l2Camera(VideoSource):
    """A camera at /dev/video*. `size`, `fps` and `pixel_format` (a fourcc such as YUYV) are wishes.

    The camera's own choice stays where they are not given. `timeout`: seconds without a frame until it counts as lost.
    """

    def __init__(
        self,
        place: str,
        *,
        size: tuple[int, int] | None = None,
        fps: int | None = None,
        pixel_format: str | None = None,
        timeout: float = 10.0,
    ) -> None:
        super().__init__(place, is_live=True, decoder="V4L2 camera")
        self._path = camera_path(place)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._buffers: list[tuple[_Memory, ...]] = []
        self._out: set[int] = set()
        """Numbers of the buffers that readers have."""
        self._is_closed = self._is_streaming = False
        self._last = -1
        self._started: float | None = None
        self._jpeg: JpegDecoder | None = None
        self._descriptor = _open(self._path, place)
        try:
            self._set_up(size, fps, pixel_format)
        except BaseException:
            self.close()
            raise

    # -- setting up --------------------------------------------------------------------------------------------------

    def _set_up(self, size: tuple[int, int] | None, fps: int | None, wish: str | None) -> None:
        about = self._call(v4l2.QUERYCAP, {}, "it is not a V4L2 device")
        caps = about["device_caps"] if about["capabilities"] & v4l2.CAP_DEVICE_CAPS else about["capabilities"]
        if not caps & (v4l2.CAP_CAPTURE | v4l2.CAP_CAPTURE_MPLANE):
            raise SourceError(
                f"{self.place}: this device captures no video; another number may (`v4l2-ctl --list-devices`)"
            )
        if not caps & v4l2.CAP_STREAMING:
            raise SourceError(f"{self.place}: the driver cannot stream into buffers; try `gst:v4l2src device=...`")
        self._type = v4l2.CAPTURE if caps & v4l2.CAP_CAPTURE else v4l2.CAPTURE_MPLANE
        self._layout = self._set_format(size, wish)
        self._jpeg = JpegDecoder() if self._layout.format is None else None
        if fps is not None:
            self._set_rate(fps)
        self._allocate()
        for index in range(len(self._buffers)):
            self._queue(index)
        self._call(v4l2.STREAMON, {"value": self._type}, "the camera does not start")
        self._is_streaming = True
        decoder = f", {self._jpeg.name}" if self._jpeg is not None else ""
        driver = _text(about, "driver", 16)
        size_text = f"{self._layout.width}x{self._layout.height}"
        self.decoder = f"V4L2 camera ({driver}, {self._layout.name} {size_text}){decoder}"

    def _set_format(self, size: tuple[int, int] | None, wish: str | None) -> Layout:
        offered = self._offered()
        chosen = preferred(offered, wish)
        if chosen is None:
            wanted = f"{wish} is not among its formats" if wish else "none of its formats is known here"
            raise SourceError(
                f"{self.place}: {wanted} ({', '.join(map(v4l2.fourcc_text, offered)) or 'none'}); supported are "
                f"{', '.join(map(v4l2.fourcc_text, FORMATS))}; a raw sensor needs an image processor in front of it"
            )
        is_single = self._type == v4l2.CAPTURE
        struct = v4l2.PIX if is_single else v4l2.PIX_MPLANE
        current = self._call(v4l2.G_FMT, {"type": self._type}, "it has no format")
        values = struct.unpack(_format_bytes(current))
        if size is not None:
            check_size(self.place, *size)
            values |= {"width": size[0], "height": size[1]}
        values |= {"pixelformat": chosen, "field": v4l2.FIELD_NONE}
        # The driver computes sizes and strides.
        values |= {name: 0 for name in values if name.startswith(("bytesperline", "sizeimage", "num_planes"))}
        data = struct.pack(values).ljust(v4l2.FORMAT_BYTES, b"\0")
        wishes = {"type": self._type, **{f"data{at}": byte for at, byte in enumerate(data)}}
        answer = self._call(v4l2.S_FMT, wishes, f"it does not take the format {v4l2.fourcc_text(chosen)}")
        return layout_of(self.place, struct.unpack(_format_bytes(answer)), is_single=is_single)

    def _offered(self) -> list[int]:
        found: list[int] = []
        for index in range(64):
            try:
                values = self._call(v4l2.ENUM_FMT, {"index": index, "type": self._type}, "")
            except SourceError:
                break  # EINVAL: that was the last
            found.append(values["pixelformat"])
        return found

    def _set_rate(self, fps: int) -> None:
        values = {"type": self._type, "numerator": 1, "denominator": fps}
        try:
            answer = self._call(v4l2.S_PARM, values, "")
        except SourceError:
            self.notes += (f"{self.place}: the camera's frame rate cannot be set",)
            return
        above, below = answer["denominator"], answer["numerator"]
        if above != fps * below:
            self.notes += (f"{self.place}: {fps} frames per second were asked for, the camera gives {above}/{below}",)

    def _allocate(self) -> None:
        wish = {"count": _BUFFERS, "type": self._type, "memory": v4l2.MEMORY_MMAP}
        count = self._call(v4l2.REQBUFS, wish, "it gives no buffers")["count"]
        if count <= _RESERVE:
            raise SourceError(f"{self.place}: the driver has {count} buffers, and {_RESERVE + 1} are needed")
        for index in range(count):
            self._buffers.append(tuple(self._mapped(index, *plane) for plane in self._planes_of(index)))

    def _planes_of(self, index: int) -> list[tuple[int, int, int]]:
        """Number, offset for mmap, and bytes of each plane of a buffer."""
        values, planes = self._buffer_call(v4l2.QUERYBUF, index)
        if self._type == v4l2.CAPTURE:
            return [(0, values["m"] & 0xFFFFFFFF, values["length"])]
        return [(number, plane["m"], plane["length"]) for number, plane in enumerate(planes)]

    def _mapped(self, index: int, number: int, offset: int, length: int) -> _Memory:
        needed = self._layout.plane_bytes[number] if number < len(self._layout.plane_bytes) else 0
        if length < max(needed, 1):
            raise SourceError(
                f"{self.place}: buffers of {length} bytes for {self._layout.name} {self._layout.width}x"
                f"{self._layout.height}, which needs {needed}; the driver contradicts itself"
            )
        try:
            # The mapping has a descriptor of its own.
            access = mmap.PROT_READ | mmap.PROT_WRITE
            memory = mmap.mmap(self._descriptor, length, mmap.MAP_SHARED, access, offset=offset)
        except (OSError, ValueError) as error:
            raise SourceError(f"{self.place}: a buffer of the camera cannot be mapped: {error}") from None
        return _Memory(np.frombuffer(memory, np.uint8), self._exported(index, number))

    def _exported(self, index: int, number: int) -> int:
        """A dma-buf of the buffer; -1 where the driver cannot make one."""
        wish = {"type": self._type, "index": index, "plane": number, "flags": drm.CLOEXEC | os.O_RDONLY}
        try:
            return self._call(v4l2.EXPBUF, wish, "")["fd"]
        except SourceError:
            if not self.notes:
                self.notes += (f"{self.place}: the driver exports no dma-bufs, so the CPU has to read the frames",)
            return -1

    # -- frames ------------------------------------------------------------------------------------------------------

    def read(self) -> VideoFrame | None:
        """The next frame. Damaged ones (a bad cable, USB errors) are skipped and counted as dropped."""
        for _ in range(_MOST_FAILURES):
            self._wait()
            values, planes = self._buffer_call(v4l2.DQBUF, 0, "no frame came")
            index = values["index"]
            if index >= len(self._buffers):
                raise SourceError(f"{self.place}: the driver returned buffer {index} of {len(self._buffers)}")
            lost = values["sequence"] - self._last - 1
            self.dropped += lost if self._last >= 0 and 0 < lost < 1 << 20 else 0
            self._last = values["sequence"]
            if values["flags"] & v4l2.ERROR:
                self.dropped += 1
                self._queue(index)
                continue
            return self._frame(index, values, planes)
        raise SourceError(f"{self.place}: {_MOST_FAILURES} damaged frames in a row; check the cable")

    def _wait(self) -> None:
        """Until a frame is there; the driver has buffers to fill, because readers never have all of them."""
        if self._is_closed:
            raise SourceError(f"{self.place}: the camera is closed")
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if not poll.poll(self._timeout * 1000):
            raise SourceError(f"{self.place}: no frame for {self._timeout:g} s; check the camera and its cable")

    def _frame(self, index: int, values: Mapping[str, int], planes: list[dict[str, int]]) -> VideoFrame:
        seconds = values["seconds"] + values["microseconds"] / 1e6
        self._started = seconds if self._started is None else self._started
        when = {"time": seconds - self._started, "number": values["sequence"]}
        memories = self._buffers[index]
        if self._jpeg is not None:
            used = planes[0]["bytesused"] if planes else values["bytesused"]
            data = memories[0].view[:used].tobytes()
            self._queue(index)
            return self._jpeg.decode(data, self.place, **when)
        with self._lock:
            is_kept = len(self._out) < len(self._buffers) - _RESERVE
            if is_kept:
                self._out.add(index)
        try:
            frame = self._described(memories if is_kept else tuple(_copied(memory) for memory in memories), when, index)
        except BaseException:
            with self._lock:
                self._out.discard(index)
            self._queue(index)
            raise
        if not is_kept:
            self._queue(index)
        return frame

    def _described(self, memories: tuple[_Memory, ...], when: dict[str, float], index: int) -> VideoFrame:
        layout = self._layout
        assert layout.format is not None
        planes = [
            Plane(offset, stride, memories[buffer].descriptor, memories[buffer].view)
            for buffer, offset, stride in layout.places
        ]
        is_kept = memories is self._buffers[index]
        return VideoFrame(
            layout.format, layout.width, layout.height, planes,
            colour_space=_SPACES.get(layout.encoding, default_space(layout.height)),
            colour_range=ColourRange.FULL if layout.is_full_range else ColourRange.LIMITED,
            time=when["time"], number=int(when["number"]), copies=0 if is_kept else 1,
            release=(lambda: self._give_back(index)) if is_kept else None,
        )  # fmt: skip

    def _give_back(self, index: int) -> None:
        with self._lock:
            self._out.discard(index)
            if self._is_closed:
                return
        self._queue(index, forgiving=True)

    def _queue(self, index: int, *, forgiving: bool = False) -> None:
        try:
            self._buffer_call(v4l2.QBUF, index, "a buffer is refused")
        except SourceError:
            if not forgiving:  # of a reader that is done: the next read says what happened to the camera
                raise

    # -- ioctls ------------------------------------------------------------------------------------------------------

    def _buffer_call(
        self, ioctl: Ioctl, index: int, problem: str = "a buffer is refused"
    ) -> tuple[dict[str, int], list[dict[str, int]]]:
        """The values of the buffer, and of its planes where the device has several."""
        values = {"index": index, "type": self._type, "memory": v4l2.MEMORY_MMAP}
        if self._type == v4l2.CAPTURE:
            return self._call(ioctl, values, problem), []
        planes = np.zeros(v4l2.MAX_PLANES * v4l2.PLANE.size, np.uint8)
        count = len(self._layout.plane_bytes)
        answer = self._call(ioctl, {**values, "m": planes.ctypes.data, "length": count}, problem)
        data = planes.tobytes()
        return answer, [v4l2.PLANE.unpack(data, number * v4l2.PLANE.size) for number in range(count)]

    def _call(self, ioctl: Ioctl, values: Mapping[str, int], problem: str) -> dict[str, int]:
        argument = bytearray(ioctl.pack(values))
        try:
            fcntl.ioctl(self._descriptor, ioctl.request, argument, True)
        except OSError as error:
            raise SourceError(f"{self.place}: {_reason(error, problem)}") from None
        return ioctl.argument.unpack(argument)

    def close(self) -> None:
        """Stop the camera. Frames that readers still have stay readable. Closing twice is allowed."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        for memory in (memory for buffer in self._buffers for memory in buffer):
            if memory.descriptor >= 0:
                os.close(memory.descriptor)
        self._buffers = []
        # The driver stops when its file is closed; mappings keep their memory.
        os.close(self._descriptor)


def _copied(memory: _Memory) -> _Memory:
    return _Memory(memory.view.copy(), -1)


def _open(path: str, place: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise SourceError(f"{place}: {_reason(error, 'the camera cannot be opened')}") from None


def _reason(error: OSError, problem: str) -> str:
    """Why, and what to do."""
    reasons = {
        errno.ENOENT: "no such camera; `ls /dev/video*` shows which there are",
        errno.EACCES: "no permission; join the group `video` (`sudo usermod -aG video $USER`) and log in again",
        errno.EBUSY: "the camera is in use by another program; `fuser -v /dev/video*` shows which",
        errno.ENODEV: "the camera is gone; was it unplugged?",
        errno.ENXIO: "the camera is gone; was it unplugged?",
        errno.ENOTTY: "it is not a V4L2 device",
        errno.ENOMEM: "no memory for its buffers; on a board enlarge CMA (`cma=128M` on the kernel's command line)",
        errno.ENOSPC: "the USB bus has no bandwidth left; ask for a smaller size, or for MJPEG",
        errno.EIO: "the camera reports an input/output error; check the cable",
        errno.EPIPE: "the image processor in front of the camera is not set up (`media-ctl`)",
    }
    known = reasons.get(error.errno or 0)
    return known if known is not None else f"{problem} ({error.strerror})"


def _format_bytes(values: Mapping[str, int]) -> bytes:
    return bytes(values[f"data{at}"] for at in range(v4l2.FORMAT_BYTES))


def _text(values: Mapping[str, int], name: str, size: int) -> str:
    text = bytes(values[f"{name}{at}"] for at in range(size)).partition(b"\0")[0].decode("ascii", "replace")
    return "".join(letter if letter.isprintable() else "?" for letter in text)

