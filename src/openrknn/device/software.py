"""The software NPU as a device: memory is NumPy memory, a prepared job is a decoded program."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import TracebackType

import numpy as np

from openrknn.chips import Chip
from openrknn.device.protocol import Bytes, DeviceBuffer, Job
from openrknn.errors import DeviceError
from openrknn.monitor import software as monitor
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.npu.accelerate import Accelerated, accelerate
from openrknn.npu.machine import Finding

__all__ = ["SoftwareBuffer", "SoftwareDevice"]

_PAGE = 4096
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
    """It is the user's."""


class _SharedMemory(Memory):
    """Jobs look addresses up while another session allocates: each change makes a new map, and no map ever changes."""

    def __init__(self) -> None:
        super().__init__()
        self._map = Memory()

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._map)

    def add(self, buffer: Buffer) -> Buffer:
        self._map = Memory([*self._map, buffer])
        return buffer

    def remove(self, buffer: Buffer) -> None:
        self._map = Memory([other for other in self._map if other is not buffer])

    def at(self, address: int, size: int, what: str) -> Buffer:
        return self._map.at(address, size, what)


class SoftwareDevice:
    """An NPU in this process. Several sessions may share one; jobs on different buffers may run at the same time."""

    def __init__(self, chip: Chip, *, strict: bool = False) -> None:
        self._memory = _SharedMemory()
        self._machine = Machine(chip, self._memory, strict=strict)
        self._chip = chip
        self._lock = threading.Lock()
        self._closed = False
        self._status = monitor.publish(chip)
        if self._status is not None:
            weakref.finalize(self, self._status.close)

    @property
    def name(self) -> str:
        return f"software:{self._chip.name}"

    @property
    def chip(self) -> Chip:
        return self._chip

    @property
    def cores(self) -> int:
        return self._chip.cores

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the programs so far hold that boards are recorded to ignore; `strict` refuses it."""
        return tuple(self._machine.findings)

    def allocate(self, size_bytes: int, name: str) -> SoftwareBuffer:
        """Zeroed memory in whole pages, with a free page behind it that catches what runs over its end."""
        if size_bytes < 1:
            raise ValueError(f"buffer {name!r} cannot have {size_bytes} bytes")
        with self._lock:
            self._check_open()
            pages = -(-size_bytes // _PAGE) * _PAGE
            address = self._gap(pages + _PAGE)
            array = np.zeros(pages, np.uint8)
            if self._status is not None:
                self._status.add_memory(pages)
            return SoftwareBuffer(name, address, array, self._memory.add(Buffer(address, array, name)))

    def adopt(self, array: Bytes, name: str) -> SoftwareBuffer:
        """Memory that exists already, seen by the NPU as it is; it must live until it is freed here."""
        with self._lock:
            self._check_open()
            address = self._gap(-(-array.nbytes // _PAGE) * _PAGE + _PAGE)
            return SoftwareBuffer(name, address, array, self._memory.add(Buffer(address, array, name)), adopted=True)

    def free(self, buffer: DeviceBuffer) -> None:
        """Unmap memory."""
        with self._lock:
            if not self._closed and isinstance(buffer, SoftwareBuffer):
                self._memory.remove(buffer.mapped)
                if self._status is not None and not buffer.adopted:
                    self._status.add_memory(-buffer.array.nbytes)

    def prepare(self, job: Job) -> Accelerated:
        """Decode the tasks into a program, on native kernels where there are any."""
        lists = [[_reference(job, number) for number in numbers] for numbers in job.lists]
        constants = {buffer.mapped for buffer in job.constants if isinstance(buffer, SoftwareBuffer)}
        with self._lock:  # decoding follows the register state of the cores, of which there is one
            self._check_open()
            program = self._machine.prepare(lists)
            prepared = accelerate(program, self._memory, is_constant=constants.__contains__)
        if self._status is not None:
            prepared.meter = partial(self._status.job, len(lists))
        return prepared

    def close(self) -> None:
        """Forget all memory."""
        with self._lock:
            self._closed = True
            for buffer in list(self._memory):
                self._memory.remove(buffer)
        if self._status is not None:
            self._status.close()

    def __enter__(self) -> SoftwareDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.name}{' closed' if self._closed else ''}>"

    def _gap(self, size_bytes: int) -> int:
        """The first place in the address space that is large enough."""
        address = _FIRST_ADDRESS
        for buffer in self._memory:
            if buffer.address - address >= size_bytes:
                break
            address = -(-buffer.end // _PAGE) * _PAGE + _PAGE  # memory of the user's may end anywhere
        if address + size_bytes > _LAST_ADDRESS:
            raise DeviceError(f"{self.name} has no room for {size_bytes} bytes in its 32-bit address space")
        return address

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceError(f"{self.name} is closed; open another one")


def _reference(job: Job, number: int) -> TaskRef:
    task = job.tasks[number]
    return TaskRef(number, task.address, task.amount, task.op_index)
