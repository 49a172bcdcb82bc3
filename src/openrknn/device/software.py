"""The software NPU as a device: memory is NumPy memory, a prepared job is a decoded program."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from openrknn.chips import Chip
from openrknn.device.base import PAGE, BaseDevice, Work
from openrknn.device.memory import SharedMemory
from openrknn.device.programs import Programs
from openrknn.device.protocol import Bytes, Job
from openrknn.errors import DeviceError
from openrknn.monitor import software as monitor
from openrknn.npu.memory import Buffer
from openrknn.records import dataclass

if TYPE_CHECKING:
    from openrknn.npu.machine import IgnoredNote

__all__ = ["SoftwareBuffer", "SoftwareDevice"]

_FIRST_ADDRESS = 0x1000_0000
_LAST_ADDRESS = 0xFFFF_F000
"""Registers hold 32-bit addresses."""


@dataclass(frozen=True, slots=True, eq=False)
class SoftwareBuffer:
    """A piece of the address space of one software NPU."""

    name: str
    address: int
    array: Bytes
    mapped: Buffer
    adopted: bool = False
    """It belongs to the user."""


class SoftwareDevice(BaseDevice[SoftwareBuffer]):
    """An NPU in this process. Several sessions may share one; jobs on different buffers may run at the same time."""

    SURVIVES_FORK = True
    takes_late_constants = True
    """Programs from the cache have their weights packed: `Job.late`."""

    def __init__(self, chip: Chip, *, strict: bool = False, space_bytes: int = _LAST_ADDRESS - _FIRST_ADDRESS) -> None:
        """`space_bytes`: what its address space has room for."""
        super().__init__(chip)
        self._end = min(_FIRST_ADDRESS + space_bytes, _LAST_ADDRESS)
        self._memory = SharedMemory()
        self._programs = Programs(chip, self._memory, strict=strict)
        self._status = monitor.publish(chip)
        if self._status is not None:
            weakref.finalize(self, self._status.close)

    @property
    def name(self) -> str:
        return f"software:{self._chip.name}"

    @property
    def findings(self) -> tuple[IgnoredNote, ...]:
        """What the programs so far hold that boards are recorded to ignore; `strict` refuses it."""
        return self._programs.findings

    def adopt(self, array: Bytes, name: str) -> SoftwareBuffer:
        """Memory that exists already, seen by the NPU as it is; it must live until it is freed here."""
        return self._own(lambda: self._mapped(self._gap(array.nbytes), array, name, is_adopted=True))

    def _allocate(self, size_bytes: int, name: str) -> SoftwareBuffer:
        buffer = self._mapped(self._gap(size_bytes), np.zeros(size_bytes, np.uint8), name)
        if self._status is not None:
            self._status.add_memory(size_bytes)
        return buffer

    def _release(self, buffer: SoftwareBuffer) -> None:
        self._memory.remove(buffer.mapped)
        if self._status is not None and not buffer.adopted:
            self._status.add_memory(-buffer.array.nbytes)

    def _prepare(self, job: Job) -> Work[SoftwareBuffer]:
        """Decode the tasks into a program, on native kernels where there are any.

        Decoding follows the register state of the cores, of which there is one: hence under the lock.
        """
        prepared = self._programs.prepare(job)
        if self._status is not None:
            prepared.meter = partial(self._status.job, len(job.lists))
        return Work(lambda _: prepared.run(), operations=prepared.operations)

    def _shut_down(self) -> None:
        if self._status is not None:
            self._status.close()

    def _mapped(self, address: int, array: Bytes, name: str, *, is_adopted: bool = False) -> SoftwareBuffer:
        return SoftwareBuffer(name, address, array, self._memory.add(Buffer(address, array, name)), is_adopted)

    def _gap(self, size_bytes: int) -> int:
        """The first place that is large enough, with a free page behind it that catches what runs over its end."""
        size_bytes = -(-size_bytes // PAGE) * PAGE + PAGE
        address = _FIRST_ADDRESS
        for buffer in self._memory:
            if buffer.address - address >= size_bytes:
                break
            address = -(-buffer.end // PAGE) * PAGE + PAGE  # user memory may end anywhere
        if address + size_bytes > self._end:
            raise DeviceError(f"{self.name} has no room for {size_bytes} bytes in its address space of "
                              f"{self._end - _FIRST_ADDRESS} bytes")  # fmt: skip
        return address
