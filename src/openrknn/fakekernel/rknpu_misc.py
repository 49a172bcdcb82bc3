"""The vendor's driver as the character device /dev/rknpu (RV1103, RV1106): no DRM, handles are dma-buf descriptors.

Facts: rknpu_mem.c and rknpu_drv.c of 0.9.8 with CONFIG_ROCKCHIP_RKNPU_DMA_HEAP. Buffers belong to the open file and
go with it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

from openrknn.fakekernel.drm import Handler, refuse
from openrknn.fakekernel.file import OpenFile
from openrknn.fakekernel.gem import Buffer, Handles
from openrknn.fakekernel.rknpu import Rknpu, describe
from openrknn.fakekernel.wire import Call
from openrknn.uapi import rknpu, tables
from openrknn.uapi.rknpu import MemoryFlag

__all__ = ["RknpuMisc"]


class RknpuMisc(Rknpu):
    """Behind /dev/rknpu."""

    table = tables.RKNPU_MISC
    has_iommu = False

    def handlers(self) -> Mapping[int, Handler]:
        own = (self.action, self.submit, self._create, self._map, self._destroy, self.mem_sync)
        return {ioctl.number: handler for ioctl, handler in zip(rknpu.MISC_IOCTLS, own, strict=True)}

    def ioctl(self, file: OpenFile, call: Call) -> int:
        """There is no DRM core in between, and no permission to ask for."""
        self._handlers[call.ioctl.number](file, call.values, call)
        return 0

    def refusal(self, file: OpenFile, kind: int, number: int) -> int:
        """Nor somebody who knows requests of others."""
        return errno.EINVAL

    def mmap(self, file: OpenFile, offset: int, length: int) -> tuple[int, int]:
        """Programs map the dma-buf, not the device."""
        raise refuse(errno.ENODEV, "the device cannot be mapped")

    def _create(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        if values["flags"] & MemoryFlag.NON_CONTIGUOUS:
            raise refuse(errno.EINVAL, "no IOMMU: memory must be contiguous")
        with self.system.buffers.lock:
            buffer = self._buffer(values, call)
            self.handles(file).add(buffer)
        describe(buffer, values)

    def _buffer(self, values: dict[str, int], call: Call) -> Buffer:
        space, flags = self.domain(0), values["flags"] | MemoryFlag.CACHEABLE
        if call.descriptor >= 0:
            return self.system.buffers.adopt(call.descriptor, flags, space)
        if not values["size"]:
            raise refuse(errno.EINVAL, "a buffer of 0 bytes")
        buffer = self.system.buffers.create(values["size"], flags, space, self.name)
        call.opened, call.close_on_exec = os.dup(buffer.descriptor), True
        return buffer

    def _map(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        raise refuse(errno.EINVAL, "this flavour of the driver has no MEM_MAP")

    def _destroy(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        buffer, handles = self.object_at(values["obj_addr"]), self.handles(file)
        if handles.holds(buffer):  # of somebody else: the driver does nothing, and says so to nobody
            handles.remove(handles.add(buffer, again=True))

    @staticmethod
    def handles(file: OpenFile) -> Handles:
        """The buffers of the session; their numbers are not shown to the program."""
        assert file.handles is not None
        return file.handles
