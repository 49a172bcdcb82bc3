"""The vendor's driver, version 0.9.8: what rknpu_drv.c, rknpu_gem.c and rknpu_job.c answer.

Where the real driver would dereference a wrong kernel address and take the machine down, this one says EINVAL.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping

from openrknn.fakekernel.drm import DrmDriver, Handler, refuse
from openrknn.fakekernel.file import OpenFile
from openrknn.fakekernel.gem import Buffer, Space
from openrknn.fakekernel.protocol import NOT_INHERITED
from openrknn.fakekernel.rknpu_submit import SubmitMixin
from openrknn.fakekernel.system import System
from openrknn.fakekernel.wire import Call
from openrknn.uapi import rknpu, tables
from openrknn.uapi.rknpu import Action, MemoryFlag

__all__ = ["OBJECT_BASE", "OBJECT_STEP", "Rknpu"]

OBJECT_BASE = 0xFFFFFF80_00000000
OBJECT_STEP = 0x400
"""A buffer's kernel address is its serial number in disguise."""
_LOWEST_ADDRESS = 0x1000
_LARGEST_FILE = (1 << 63) - 1
"""Of a file in memory, which a buffer is to the kernel."""


class Rknpu(SubmitMixin, DrmDriver):
    """Behind /dev/dri/card1 and /dev/dri/renderD129."""

    table = tables.RKNPU
    name = rknpu.DRIVER_NAME
    version = rknpu.VERSION
    date = rknpu.DATE
    description = rknpu.DESCRIPTION
    has_iommu = True

    def __init__(self, system: System, unique: str) -> None:
        super().__init__(system, unique)
        self._domains: dict[int, Space] = {}
        self._domain = 0
        self._answers = self._make_answers()
        self.domain(0)

    def handlers(self) -> Mapping[int, Handler]:
        return {
            rknpu.ACTION.number: self.action,
            rknpu.SUBMIT.number: self.submit,
            rknpu.MEM_CREATE.number: self._mem_create,
            rknpu.MEM_MAP.number: self._mem_map,
            rknpu.MEM_DESTROY.number: self._mem_destroy,
            rknpu.MEM_SYNC.number: self.mem_sync,
        }

    def domain(self, number: int) -> Space:
        """An IOMMU domain; it appears when it is first used."""
        if not 0 <= number <= rknpu.LAST_DOMAIN:
            raise refuse(errno.EINVAL, f"there is no IOMMU domain {number}")
        with self.system.buffers.lock:
            if number not in self._domains:
                self._domains[number] = self.system.new_space(start=_LOWEST_ADDRESS, highest_first=True)
            return self._domains[number]

    def switch(self, number: int) -> Space:
        """The domain, which is switched on from now on: memory of another one is not seen by the next job."""
        space = self.domain(number)
        self._domain = number
        return space

    def import_buffer(self, file: OpenFile, descriptor: int) -> Buffer:
        """Mapped into the domain that is switched on at this moment."""
        return self.system.buffers.adopt(descriptor, 0, self.domain(self._domain))

    def object_at(self, address: int) -> Buffer:
        """The buffer behind a kernel address that MEM_CREATE gave out."""
        serial, rest = divmod(address - OBJECT_BASE, OBJECT_STEP)
        buffer = self.system.buffers.find_serial(serial) if not rest else None
        if buffer is None:
            raise refuse(errno.EINVAL, f"no buffer has the kernel address {address:#x}")
        return buffer

    def mmap(self, file: OpenFile, offset: int, length: int) -> tuple[int, int]:
        """The driver marks its maps: a child that touches one is killed (VM_DONTCOPY)."""
        descriptor, place = super().mmap(file, offset, length)
        return descriptor, place | NOT_INHERITED

    def action(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        """Questions, and a few orders."""
        number = values["flags"]
        if (answer := self._answers.get(number)) is not None:
            values["value"] = answer()
        elif number == Action.ACT_RESET:
            self._soft_reset()
        elif number == Action.SET_IOMMU_DOMAIN_ID:
            self.switch(values["value"])
        elif number not in (*_DONE_BY_NOTHING, *_COUNTERS):
            raise refuse(errno.EINVAL, f"ACTION {number} is not supported")

    def _make_answers(self) -> dict[int, Callable[[], int]]:
        system, version, hardware = self.system, rknpu.version_code(self.version), self.system.chip.hw_version or 0
        # The counters of the chips that have them stay at 0; on RK3588 the driver warns and leaves the value alone.
        counters = () if self.system.chip.family in _WITHOUT_COUNTERS else _COUNTERS
        return {
            Action.GET_HW_VERSION: lambda: hardware,
            Action.GET_DRV_VERSION: lambda: version,
            Action.GET_FREQ: lambda: system.frequency,
            Action.GET_VOLT: lambda: system.board.microvolts,
            Action.GET_IOMMU_EN: lambda: int(self.has_iommu),
            Action.GET_TOTAL_SRAM_SIZE: lambda: 0,
            Action.GET_FREE_SRAM_SIZE: lambda: 0,
            Action.GET_IOMMU_DOMAIN_ID: lambda: self._domain,
            **{counter: lambda: 0 for counter in counters},
        }

    def _soft_reset(self) -> None:
        if self.system.soft_reset and self.system.scheduler.link is not None:
            self.system.scheduler.link.reset()

    def _mem_create(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        """A known handle is described, anything else makes a new buffer."""
        buffer = self.handles(file).get(values["handle"])
        if buffer is None:
            if not 0 < values["size"] <= _LARGEST_FILE:
                raise refuse(errno.EINVAL, f"a buffer of {values['size']} bytes")
            space = self.switch(values["iommu_domain_id"])
            with self.system.buffers.lock:
                buffer = self.system.buffers.create(values["size"], values["flags"], space, self.name)
                values["handle"] = self.handles(file).add(buffer)
        describe(buffer, values)

    def _mem_map(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        buffer = self.lookup(file, values["handle"])
        if buffer.imported:
            raise refuse(errno.EINVAL, "imported buffers are mapped through their own descriptor")
        values["offset"] = buffer.offset

    def _mem_destroy(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        self.close_handle(file, values["handle"])

    def mem_sync(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        """Caches are coherent here; only the refusals are left."""
        if not self.object_at(values["obj_addr"]).flags & MemoryFlag.CACHEABLE:
            raise refuse(errno.EINVAL, "the buffer is not cacheable")


def describe(buffer: Buffer, values: dict[str, int]) -> None:
    """What MEM_CREATE answers."""
    values["size"], values["dma_addr"], values["sram_size"] = buffer.size, buffer.address, 0
    values["obj_addr"] = OBJECT_BASE + buffer.serial * OBJECT_STEP


_COUNTERS = (Action.GET_DT_WR_AMOUNT, Action.GET_DT_RD_AMOUNT, Action.GET_WT_RD_AMOUNT, Action.GET_TOTAL_RW_AMOUNT)
_WITHOUT_COUNTERS = ("rk3588",)
_DONE_BY_NOTHING = {Action.ACT_CLR_TOTAL_RW_AMOUNT, Action.SET_PROC_NICE}
