"""An emulated V4L2 camera: /dev/video0 with a moving test pattern, or with frames that a test hands in.

Its buffers are memfds, which programs map and which EXPBUF hands out as dma-bufs. A queue of buffers belongs to the
file that asked for them first, as in the kernel's videobuf2.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from openrknn.fakekernel.drm import refuse
from openrknn.fakekernel.file import OpenFile
from openrknn.fakekernel.gem import new_memory
from openrknn.fakekernel.space import PAGE, pages
from openrknn.fakekernel.system import System
from openrknn.fakekernel.wire import Call
from openrknn.uapi import drm, tables, v4l2

__all__ = ["Camera", "CameraSpec", "pattern"]

_MOST_BUFFERS = 32
_ROW_ALIGNMENT = 64
_PLANES = {"NV12": ((1, 1), (1, 2)), "NM12": ((1, 1), (1, 2)), "YUYV": ((2, 1),), "MJPG": ((1, 1),)}
"""Bytes of a row for each pixel of the width, and rows of the image for each row: of every plane."""
_IN_ONE_BUFFER = frozenset(("NV12", "YUYV", "MJPG"))


@dataclass(frozen=True)
class CameraSpec:
    """What the camera offers. Programs see `format` as the only one."""

    width: int = 640
    height: int = 480
    format: str = "NV12"
    """NV12, NM12 (two buffers: multi-planar), YUYV or MJPG."""
    fps: float = 30.0
    """0: a frame as soon as there is a buffer for it."""
    frames: Sequence[bytes] = ()
    """Rows without padding, shown in turns; empty: a test pattern."""
    announced_stride: int | None = None
    """What the camera says, where that is a lie."""
    refusal: int = 0
    """What open(2) fails with."""

    @property
    def stride(self) -> int:
        """Bytes between rows."""
        return -(-self.width * _PLANES[self.format][0][0] // _ROW_ALIGNMENT) * _ROW_ALIGNMENT

    @property
    def plane_bytes(self) -> list[int]:
        """Of each buffer of a frame."""
        sizes = [self.stride * -(-self.height // rows) for _, rows in _PLANES[self.format]]
        return [sum(sizes)] if self.format in _IN_ONE_BUFFER else sizes

    @classmethod
    def of_text(cls, text: str) -> CameraSpec:
        """From "1280x720", "1280x720:yuyv" or "1280x720:nv12:FILE" (raw frames)."""
        size, _, rest = text.partition(":")
        name, _, path = rest.partition(":")
        numbers, name = size.lower().split("x"), name.upper() or "NV12"
        if len(numbers) != 2 or not all(number.isdecimal() and 0 < int(number) <= 8192 for number in numbers):
            raise ValueError(f"{text}: a camera is WIDTHxHEIGHT, for example 1280x720:nv12")
        if name not in ("NV12", "NM12", "YUYV"):
            raise ValueError(f"{text}: the format is nv12, nm12 or yuyv")
        spec = cls(int(numbers[0]), int(numbers[1]), name)
        return cls(spec.width, spec.height, name, frames=_frames_in(path, spec)) if path else spec


def _frames_in(path: str, spec: CameraSpec) -> list[bytes]:
    size = sum(spec.width * row * -(-spec.height // rows) for row, rows in _PLANES[spec.format])
    with open(path, "rb") as file:
        data = file.read()
    if not data or len(data) % size:
        raise ValueError(f"{path}: {len(data)} bytes are not whole frames of {size} bytes")
    return [data[at : at + size] for at in range(0, len(data), size)]


def pattern(spec: CameraSpec, number: int) -> bytes:
    """A diagonal ramp that moves by four levels for each frame; chroma changes slowly. Rows have no padding."""
    rows, columns = np.ogrid[: spec.height, : spec.width]
    luma = ((rows + columns + 4 * number) & 0xFF).astype(np.uint8)
    if spec.format == "YUYV":
        packed = np.full((spec.height, 2 * spec.width), 128 + number % 64, np.uint8)
        packed[:, 0::2] = luma
        return packed.tobytes()
    chroma = np.full((-(-spec.height // 2), spec.width), 128 + number % 64, np.uint8)
    return luma.tobytes() + chroma.tobytes()


@dataclass(eq=False)
class _Buffer:
    descriptors: list[int]
    offsets: list[int]
    state: str = "idle"
    """idle, queued or done."""
    used: int = 0
    sequence: int = 0
    seconds: float = 0.0


@dataclass(eq=False)
class _Queue:
    """The buffers of the file that has asked for them."""

    file: OpenFile
    buffers: list[_Buffer]
    queued: deque[int] = field(default_factory=deque)
    done: deque[int] = field(default_factory=deque)
    is_streaming: bool = False
    next_number: int = 0


class Camera:
    """Behind /dev/video0."""

    table = tables.V4L2

    def __init__(self, system: System, spec: CameraSpec) -> None:
        self._system = system
        self._queue: _Queue | None = None
        self._lock = threading.Lock()
        self._due = threading.Condition(self._lock)
        self.plug_in(spec)
        self._handlers = {
            v4l2.QUERYCAP.number: self._capabilities,
            v4l2.ENUM_FMT.number: self._enumerate,
            v4l2.G_FMT.number: self._format,
            v4l2.S_FMT.number: self._set_format,
            v4l2.REQBUFS.number: self._request,
            v4l2.QUERYBUF.number: self._query,
            v4l2.QBUF.number: self._enqueue,
            v4l2.EXPBUF.number: self._export,
            v4l2.DQBUF.number: self._dequeue,
            v4l2.STREAMON.number: self._start,
            v4l2.STREAMOFF.number: self._stop,
            v4l2.S_PARM.number: self._rate,
        }

    def plug_in(self, spec: CameraSpec) -> None:
        """A camera like this one in the place of the last, which no program uses."""
        self.spec = spec
        self._is_gone = False
        self._type = v4l2.CAPTURE if spec.format in _IN_ONE_BUFFER else v4l2.CAPTURE_MPLANE

    def unplug(self) -> None:
        """Somebody pulls the cable: every call fails with ENODEV, and poll(2) wakes up."""
        with self._lock:
            self._is_gone = True
            if self._queue is not None:
                with contextlib.suppress(OSError):
                    self._queue.file.end.shutdown(socket.SHUT_WR)
            self._due.notify_all()

    # -- what the server calls ---------------------------------------------------------------------------------------

    def open(self, file: OpenFile) -> None:
        """Any number of files; one of them can have buffers."""
        if self.spec.refusal or self._is_gone:
            raise refuse(self.spec.refusal or errno.ENODEV, "it cannot be opened")

    def close(self, file: OpenFile) -> None:
        """Free the buffers of the file."""
        with self._lock:
            if self._queue is not None and self._queue.file is file:
                self._free()

    def mmap(self, file: OpenFile, offset: int, length: int) -> tuple[int, int]:
        """The buffer that QUERYBUF named."""
        with self._lock:
            for buffer in self._queue.buffers if self._queue is not None else ():
                for descriptor, place in zip(buffer.descriptors, buffer.offsets, strict=True):
                    if place == offset and length <= os.fstat(descriptor).st_size:
                        return os.dup(descriptor), 0
        raise refuse(errno.EINVAL, "no buffer at the offset")

    def ioctl(self, file: OpenFile, call: Call) -> int:
        """One call."""
        if call.ioctl.number == v4l2.DQBUF.number:
            self._dequeue(file, call)  # it takes the lock by itself, for it may wait
            return 0
        with self._lock:
            if self._is_gone:
                raise refuse(errno.ENODEV, "the camera is gone")
            self._handlers[call.ioctl.number](file, call)
        return 0

    # -- the calls ---------------------------------------------------------------------------------------------------

    def _capabilities(self, file: OpenFile, call: Call) -> None:
        is_single = self._type == v4l2.CAPTURE
        caps = v4l2.CAP_STREAMING | (v4l2.CAP_CAPTURE if is_single else v4l2.CAP_CAPTURE_MPLANE)
        _set_text(call.values, "driver", "openrknn", 16)
        _set_text(call.values, "card", "Emulated camera", 32)
        _set_text(call.values, "bus_info", "platform:openrknn", 32)
        call.values |= {"version": 0x060C00, "capabilities": caps | v4l2.CAP_DEVICE_CAPS, "device_caps": caps}

    def _enumerate(self, file: OpenFile, call: Call) -> None:
        self._check_type(call.values["type"])
        if call.values["index"]:
            raise refuse(errno.EINVAL, "there is one format")
        _set_text(call.values, "description", self.spec.format, 32)
        call.values["pixelformat"] = v4l2.fourcc(self.spec.format)

    def _format(self, file: OpenFile, call: Call) -> None:
        """The only format there is, whatever was asked for."""
        self._check_type(call.values["type"])
        spec, sizes = self.spec, self.spec.plane_bytes
        stride = spec.stride if spec.announced_stride is None else spec.announced_stride
        stride = 0 if spec.format == "MJPG" else stride
        common = {"width": spec.width, "height": spec.height, "pixelformat": v4l2.fourcc(spec.format)}
        common |= {"field": v4l2.FIELD_NONE, "ycbcr_enc": v4l2.YCBCR_601, "quantization": v4l2.QUANTIZATION_LIMITED}
        if self._type == v4l2.CAPTURE:
            data = v4l2.PIX.pack({**common, "bytesperline": stride, "sizeimage": sizes[0]})
        else:
            planes = {f"sizeimage{number}": size for number, size in enumerate(sizes)}
            planes |= {f"bytesperline{number}": stride for number in range(len(sizes))}
            data = v4l2.PIX_MPLANE.pack({**common, **planes, "num_planes": len(sizes)})
        call.values |= {f"data{at}": byte for at, byte in enumerate(data.ljust(v4l2.FORMAT_BYTES, b"\0"))}

    def _set_format(self, file: OpenFile, call: Call) -> None:
        if self._queue is not None:
            raise refuse(errno.EBUSY, "buffers are in use")
        self._format(file, call)

    def _rate(self, file: OpenFile, call: Call) -> None:
        self._check_type(call.values["type"])
        call.values |= {"capability": v4l2.TIME_PER_FRAME, "numerator": 1, "denominator": round(self.spec.fps) or 30}

    def _request(self, file: OpenFile, call: Call) -> None:
        values = call.values
        self._check_type(values["type"])
        if values["memory"] != v4l2.MEMORY_MMAP:
            raise refuse(errno.EINVAL, "only MMAP")
        if self._queue is not None and (self._queue.file is not file or self._queue.is_streaming):
            raise refuse(errno.EBUSY, "buffers are in use")
        self._free()
        values["count"] = min(values["count"], _MOST_BUFFERS)
        if values["count"]:
            self._queue = _Queue(file, self._allocated(values["count"]))

    def _allocated(self, count: int) -> list[_Buffer]:
        buffers, place = [], PAGE
        for _ in range(count):
            descriptors, offsets = [], []
            for size in self.spec.plane_bytes:
                descriptors.append(new_memory(pages(size), "v4l2"))
                self._system.heap_inodes.add(os.fstat(descriptors[-1]).st_ino)
                offsets.append(place)
                place += pages(size)
            buffers.append(_Buffer(descriptors, offsets))
        return buffers

    def _free(self) -> None:
        for buffer in self._queue.buffers if self._queue is not None else ():
            for descriptor in buffer.descriptors:
                os.close(descriptor)
        self._queue = None
        self._due.notify_all()

    def _own(self, file: OpenFile, kind: int) -> _Queue:
        self._check_type(kind)
        if self._queue is None or self._queue.file is not file:
            raise refuse(errno.EINVAL, "the file has no buffers")
        return self._queue

    def _buffer(self, file: OpenFile, call: Call) -> _Buffer:
        queue = self._own(file, call.values["type"])
        if call.values["index"] >= len(queue.buffers):
            raise refuse(errno.EINVAL, "no such buffer")
        return queue.buffers[call.values["index"]]

    def _query(self, file: OpenFile, call: Call) -> None:
        self._describe(call, self._buffer(file, call))

    def _describe(self, call: Call, buffer: _Buffer) -> None:
        values, sizes = call.values, self.spec.plane_bytes
        seconds, rest = divmod(int(buffer.seconds * 1e6), 10**6)
        values |= {"memory": v4l2.MEMORY_MMAP, "field": v4l2.FIELD_NONE, "sequence": buffer.sequence}
        values |= {"seconds": seconds, "microseconds": rest, "bytesused": buffer.used}
        if self._type == v4l2.CAPTURE:
            values |= {"length": sizes[0], "m": buffer.offsets[0]}
            return
        planes = [
            v4l2.PLANE.pack({"bytesused": size if buffer.used else 0, "length": size, "m": offset})
            for size, offset in zip(sizes, buffer.offsets, strict=True)
        ]
        call.fill("m", b"".join(planes))
        values["length"] = min(values["length"], len(planes))

    def _enqueue(self, file: OpenFile, call: Call) -> None:
        buffer = self._buffer(file, call)
        assert self._queue is not None
        if buffer.state != "idle":
            raise refuse(errno.EINVAL, "the buffer is queued already")
        buffer.state = "queued"
        self._queue.queued.append(call.values["index"])
        self._fill_all()

    def _export(self, file: OpenFile, call: Call) -> None:
        buffer = self._buffer(file, call)
        if call.values["plane"] >= len(buffer.descriptors):
            raise refuse(errno.EINVAL, "no such plane")
        call.opened = os.dup(buffer.descriptors[call.values["plane"]])
        call.close_on_exec = bool(call.values["flags"] & drm.CLOEXEC)

    def _start(self, file: OpenFile, call: Call) -> None:
        queue = self._own(file, call.values["value"])
        if queue.is_streaming:
            return
        queue.is_streaming, queue.next_number = True, 0
        if self.spec.fps:
            threading.Thread(target=self._film, args=(queue,), daemon=True, name="camera").start()
        self._fill_all()

    def _stop(self, file: OpenFile, call: Call) -> None:
        """Every buffer is the program's again."""
        queue = self._own(file, call.values["value"])
        queue.is_streaming = False
        queue.queued.clear()
        queue.done.clear()
        for buffer in queue.buffers:
            buffer.state = "idle"
        self._due.notify_all()

    def _dequeue(self, file: OpenFile, call: Call) -> None:
        """Waits, as a file without O_NONBLOCK does."""
        with self._lock:
            while True:
                if self._is_gone:
                    raise refuse(errno.ENODEV, "the camera is gone")
                queue = self._own(file, call.values["type"])
                if not queue.is_streaming or file.is_closed:
                    raise refuse(errno.EINVAL, "it does not stream")
                if queue.done:
                    break
                self._due.wait()
            index = queue.done.popleft()
            queue.buffers[index].state = "idle"
            call.values["index"] = index
            self._describe(call, queue.buffers[index])
            call.takes_byte = True

    def _check_type(self, kind: int) -> None:
        if kind != self._type:
            raise refuse(errno.EINVAL, f"type {kind}")

    # -- frames ------------------------------------------------------------------------------------------------------

    def _fill_all(self) -> None:
        """Without a rate: all that are queued, at once."""
        queue = self._queue
        while not self.spec.fps and queue is not None and queue.is_streaming and queue.queued:
            self._fill(queue)

    def _film(self, queue: _Queue) -> None:
        """A frame for each tick; where there is no buffer for it, its number is missing."""
        started = time.monotonic()
        with self._lock:
            while queue is self._queue and queue.is_streaming and not self._is_gone:
                wait = started + queue.next_number / self.spec.fps - time.monotonic()
                if wait > 0:
                    self._due.wait(wait)
                elif queue.queued:
                    self._fill(queue)
                else:
                    queue.next_number += 1

    def _fill(self, queue: _Queue) -> None:
        index, number = queue.queued.popleft(), queue.next_number
        buffer, frames = queue.buffers[index], self.spec.frames
        data = frames[number % len(frames)] if frames else pattern(self.spec, number)
        buffer.used = self._write(buffer, data)
        buffer.state, buffer.sequence, buffer.seconds = "done", number, time.monotonic()
        queue.next_number += 1
        queue.done.append(index)
        with contextlib.suppress(OSError):  # the program is gone
            queue.file.end.send(b"\1", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        self._due.notify_all()

    def _write(self, buffer: _Buffer, data: bytes) -> int:
        spec = self.spec
        if spec.format == "MJPG":
            data = data[: spec.plane_bytes[0]]
            os.pwrite(buffer.descriptors[0], data, 0)
            return len(data)
        at, place = 0, 0
        for number, (row_bytes, rows_per_row) in enumerate(_PLANES[spec.format]):
            width, rows = spec.width * row_bytes, -(-spec.height // rows_per_row)
            target = buffer.descriptors[min(number, len(buffer.descriptors) - 1)]
            with mmap.mmap(target, 0) as memory:
                view = np.frombuffer(memory, np.uint8)
                padded = view[place : place + rows * spec.stride].reshape(rows, spec.stride)
                padded[:, :width] = np.frombuffer(data, np.uint8, rows * width, at).reshape(rows, width)
                del view, padded
            at += rows * width
            place = place + rows * spec.stride if spec.format in _IN_ONE_BUFFER else 0
        return sum(spec.plane_bytes)


def _set_text(values: dict[str, int], name: str, text: str, size: int) -> None:
    values |= {f"{name}{at}": byte for at, byte in enumerate(text.encode()[: size - 1].ljust(size, b"\0"))}
