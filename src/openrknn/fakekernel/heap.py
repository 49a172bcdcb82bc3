"""Memory and fences that belong to no device: dma-heaps, dma-bufs, sync_files."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from openrknn.fakekernel.drm import refuse
from openrknn.fakekernel.fences import Fence
from openrknn.fakekernel.file import OpenFile
from openrknn.fakekernel.gem import new_memory
from openrknn.fakekernel.space import PAGE, pages
from openrknn.fakekernel.system import System
from openrknn.fakekernel.wire import Call
from openrknn.uapi import dmabuf, drm, tables

__all__ = ["HEAPS", "DmaBuf", "DmaHeap", "SyncFile"]

HEAPS = ("system", "system-dma32", "system-uncached", "system-uncached-dma32", "cma", "cma-uncached")
"""As the vendor's kernels name them."""


class _NoMapping:
    """A file that has nothing to map and nothing to give back."""

    def open(self, file: OpenFile) -> None:
        """Nothing to set up."""

    def mmap(self, file: OpenFile, offset: int, length: int) -> tuple[int, int]:
        """Not possible."""
        raise refuse(errno.ENODEV, "it cannot be mapped")

    def close(self, file: OpenFile) -> None:
        """Nothing to give back."""


class DmaHeap(_NoMapping):
    """Behind /dev/dma_heap/*."""

    table = tables.DMA_HEAP

    def __init__(self, system: System) -> None:
        self._system = system

    def ioctl(self, file: OpenFile, call: Call) -> int:
        """New memory, as a descriptor."""
        values = call.values
        if values["fd"] or values["heap_flags"] or values["fd_flags"] & ~(drm.CLOEXEC | drm.RDWR | os.O_WRONLY):
            raise refuse(errno.EINVAL, "fields that must be 0 are not")
        if not 0 < values["len"] <= 1 << 40:
            raise refuse(errno.EINVAL, f"a buffer of {values['len']} bytes")
        call.opened = new_memory(max(pages(values["len"]), PAGE), "dmabuf")
        call.close_on_exec = bool(values["fd_flags"] & drm.CLOEXEC)
        self._system.heap_inodes.add(os.fstat(call.opened).st_ino)
        return 0


class DmaBuf(_NoMapping):
    """A dma-buf descriptor. Caches are coherent here, so there is nothing to synchronise."""

    table = tables.DMA_BUF

    def ioctl(self, file: OpenFile, call: Call) -> int:
        """Only the flags are looked at."""
        flags = call.values["flags"]
        if flags & ~dmabuf.SYNC_VALID or not flags & 3:
            raise refuse(errno.EINVAL, f"flags {flags:#x}")
        return 0


class SyncFile(_NoMapping):
    """A fence's descriptor."""

    table = tables.SYNC_FILE

    def ioctl(self, file: OpenFile, call: Call) -> int:
        """State, or a fence made of two."""
        assert file.fence is not None
        if call.ioctl is dmabuf.FENCE_INFO:
            self._info(file.fence, call)
        else:
            self._merge(file.fence, call)
        return 0

    def _info(self, fence: Fence, call: Call) -> None:
        values = call.values
        if values["flags"] or values["pad"]:
            raise refuse(errno.EINVAL, "flags and pad must be 0")
        if values["num_fences"]:
            details: dict[str, int] = {}
            _set_text(details, "obj_name", fence.timeline)
            _set_text(details, "driver_name", fence.driver)
            details |= {"status": fence.status, "timestamp_ns": fence.timestamp_ns}
            call.fill("sync_fence_info", dmabuf.INFO_FENCE.pack(details))
        _set_text(values, "name", fence.timeline)
        values["status"], values["num_fences"] = fence.status, 1

    def _merge(self, fence: Fence, call: Call) -> None:
        other = self.find_fence(call.descriptor)
        if other is None:
            raise refuse(errno.ENOENT, "fd2 is no fence")
        call.fence, call.close_on_exec = Fence.merge([fence, other]), True

    def find_fence(self, descriptor: int) -> Fence | None:
        """The fence behind a descriptor; the server puts its own search here."""
        raise NotImplementedError

    def close(self, file: OpenFile) -> None:
        """The program does not wait any more."""
        assert file.fence is not None
        file.fence.forget(file.end)


def _set_text(values: dict[str, int], name: str, text: str) -> None:
    data: Sequence[int] = text.encode()[:31].ljust(32, b"\0")
    values |= {f"{name}{index}": byte for index, byte in enumerate(data)}
