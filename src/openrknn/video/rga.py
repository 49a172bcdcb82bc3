"""Conversion by RGA: the pixels of a frame go from one dma-buf to another, and the CPU touches none of them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import threading
from collections import OrderedDict
from collections.abc import Sequence

from openrknn.device.kernel import Driver, Kernel, SystemKernel
from openrknn.errors import DeviceError
from openrknn.pixels.convert import Box, Fill, checked_box, fill_around, fill_values
from openrknn.uapi import rga
from openrknn.uapi.rga_cores import Core, cores_of
from openrknn.video.conversion import Conversion, target_view
from openrknn.video.errors import VideoError
from openrknn.video.frame import VideoFrame
from openrknn.video.rga_requests import NotForRgaError, bars, blit, placed

__all__ = ["PendingConversion", "Rga"]

_MOST_BUFFERS = 64
"""Buffers that stay imported: those of a camera and of a model are used again and again."""


class PendingConversion:
    """A conversion that RGA works on. `fence` becomes readable when it is done; `wait` waits and says how it was."""

    def __init__(self, fence: int, result: Conversion) -> None:
        self.fence = fence
        self._result = result

    def wait(self, seconds: float = 10.0) -> Conversion:
        """Wait for the fence and close it."""
        if self.fence >= 0:
            poll = select.poll()
            poll.register(self.fence, select.POLLIN)
            is_done = bool(poll.poll(seconds * 1000))
            self.close()
            if not is_done:
                raise VideoError(f"RGA has not finished a frame within {seconds:g} s; the kernel log may say why")
        return self._result

    def close(self) -> None:
        """Do not wait for it. The driver finishes it all the same."""
        fence, self.fence = self.fence, -1
        if fence >= 0:
            os.close(fence)


class Rga:
    """/dev/rga of the vendor's kernel. Frame and target have descriptors of dma-bufs.

    Results differ from those of the CPU: RGA rounds in its own way, and most of its cores average where they make an
    image smaller (`openrknn.uapi.rga_cores`). What it cannot do is `NotForRgaError`, before anything is written.
    """

    name = "rga"

    def __init__(self, path: str = rga.NODE, *, kernel: Kernel | None = None) -> None:
        self._driver = Driver(kernel or SystemKernel(), path)
        self._lock = threading.Lock()
        self._handles: OrderedDict[tuple[int, int], int] = OrderedDict()
        try:
            self.cores = self._find_cores()
        except BaseException:
            self._driver.close()
            raise

    def _find_cores(self) -> tuple[Core, ...]:
        found = self._driver.call(rga.GET_HW_VERSION, {})
        numbers = range(min(found["size"], rga.VERSIONS))
        return cores_of([(found[f"major{i}_"], found[f"minor{i}_"], found[f"revision{i}_"]) for i in numbers])

    # -- conversion --------------------------------------------------------------------------------------------

    def convert(
        self, frame: VideoFrame, target: VideoFrame, *,
        crop: Box | None = None, place: Box | None = None, fill: Fill = 114, order: str = "rgb",
    ) -> Conversion:  # fmt: skip
        """As `openrknn.video.convert`; returns when the target is complete."""
        return self.start(frame, target, crop=crop, place=place, fill=fill, waits=True).wait()

    def start(
        self, frame: VideoFrame, target: VideoFrame, *,
        crop: Box | None = None, place: Box | None = None, fill: Fill = 114, acquire: int = -1, waits: bool = False,
    ) -> PendingConversion:  # fmt: skip
        """Begin a conversion. `acquire` is a fence (sync_file) that RGA waits for before it reads the frame."""
        source_box = checked_box("crop", crop, frame.width, frame.height)
        target_box = checked_box("place", place, target.width, target.height)
        source, into = placed(frame, "frame"), placed(target, "target")
        red, green, blue = fill_values(fill, 3, "rgb")
        with self._lock:
            handles = {one: self._handle(one) for one in (*source.descriptors, *into.descriptors)}
            task = blit(frame, source, into, boxes=(source_box, target_box), handles=handles, cores=self.cores)
            note = ""
            try:
                size, known = (target.width, target.height), self.cores
                rest = bars(into, size, target_box, colour=(red, green, blue), handles=handles, cores=known)
                fence = self._submit([task, *rest], acquire, waits=waits)
            except (NotForRgaError, DeviceError) as error:
                # Filling needs an RGA2 core and memory below 4 GiB. The borders are few pixels: the CPU writes them.
                if target_box == (0, 0, target.width, target.height):
                    raise _refused(frame, error) from None
                try:
                    fence = self._submit([task], acquire, waits=waits)
                except DeviceError as again:
                    raise _refused(frame, again) from None
                _fill_by_cpu(target, target_box, fill)
                note = f"the CPU filled the borders: {error}"
        return PendingConversion(fence, Conversion(self.name, 0, frame.copies, note))

    def refusal(self, frame: VideoFrame, target: VideoFrame, crop: Box | None, place: Box | None) -> str:
        """Why RGA cannot do this, or ""; nothing is written."""
        try:
            source, into = placed(frame, "frame"), placed(target, "target")
            boxes = (
                checked_box("crop", crop, frame.width, frame.height),
                checked_box("place", place, target.width, target.height),
            )
            handles = dict.fromkeys((*source.descriptors, *into.descriptors), 0)
            blit(frame, source, into, boxes=boxes, handles=handles, cores=self.cores)
        except NotForRgaError as error:
            return str(error)
        return ""

    def _submit(self, tasks: Sequence[dict[str, int]], acquire: int, *, waits: bool) -> int:
        """Run tasks in order; the fence of their end, or -1 if the call waited."""
        packed = b"".join(rga.TASK.pack(task) for task in tasks)
        memory = ctypes.create_string_buffer(packed, len(packed))
        number = self._driver.call(rga.REQUEST_CREATE, {})["id"]
        try:
            done = self._driver.call(rga.REQUEST_SUBMIT, {
                "task_ptr": ctypes.addressof(memory), "task_num": len(tasks), "id": number,
                "sync_mode": rga.SYNC if waits else rga.ASYNC, "release_fence_fd": -1,
                "acquire_fence_fd": max(acquire, 0),
            })  # fmt: skip
        except DeviceError:
            with contextlib.suppress(DeviceError):  # a driver that consumed it knows it no more
                self._driver.call(rga.REQUEST_CANCEL, {"id": number})
            raise
        return -1 if waits else done["release_fence_fd"]

    # -- buffers -----------------------------------------------------------------------------------------------

    def _handle(self, descriptor: int) -> int:
        """The driver's name of a buffer. While it is imported its inode cannot become another buffer's."""
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        if key in self._handles:
            self._handles.move_to_end(key)
            return self._handles[key]
        size = os.lseek(descriptor, 0, os.SEEK_END)
        element = {"memory": descriptor, "type": rga.DMA_BUFFER, "size": size}
        memory = ctypes.create_string_buffer(rga.EXTERNAL_BUFFER.pack(element), rga.EXTERNAL_BUFFER.size)
        try:
            self._driver.call(rga.IMPORT_BUFFER, {"buffers": ctypes.addressof(memory), "size": 1})
        except DeviceError as error:
            raise NotForRgaError(f"RGA cannot import descriptor {descriptor}: {error}") from None
        handle = rga.EXTERNAL_BUFFER.unpack(memory.raw)["handle"]
        if not handle:
            raise NotForRgaError(f"RGA cannot import descriptor {descriptor}: it is no dma-buf that the driver accepts")
        self._handles[key] = handle
        while len(self._handles) > _MOST_BUFFERS:
            self._release(self._handles.popitem(last=False)[1])
        return handle

    def _release(self, handle: int) -> None:
        memory = ctypes.create_string_buffer(rga.EXTERNAL_BUFFER.pack({"handle": handle}), rga.EXTERNAL_BUFFER.size)
        self._driver.call(rga.RELEASE_BUFFER, {"buffers": ctypes.addressof(memory), "size": 1})

    def close(self) -> None:
        """Give the buffers back. Closing twice is allowed."""
        with self._lock:
            handles, self._handles = list(self._handles.values()), OrderedDict()
            for handle in handles:
                self._release(handle)
            self._driver.close()

    def __enter__(self) -> Rga:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refused(frame: VideoFrame, error: Exception) -> NotForRgaError:
    return NotForRgaError(f"RGA refused to convert {frame!r}: {error}; the kernel log says why")


def _fill_by_cpu(target: VideoFrame, place: Box, fill: Fill) -> None:
    if target.planes[0].memory is None:
        raise VideoError("RGA cannot fill the borders, and the target is not mapped for the CPU")
    view, order = target_view(target, "rgb")
    fill_around(view, place, fill_values(fill, view.shape[2], order))
