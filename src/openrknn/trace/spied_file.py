"""A device file of a program that runs on a real kernel, seen through a copy of its descriptor.

The copy is the same open file, so its handles are the program's: the buffers can be mapped a second time and read.
Caches are the delicate part. Before a job they hold what the program sees. After a job the lines of a cacheable buffer
are stale; they are first written back (the program may have filled the next input meanwhile) and then dropped.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import mmap
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from openrknn.fakekernel.rknpu_submit import cores_of, range_of
from openrknn.fakekernel.space import pages
from openrknn.fakekernel.wire import Call
from openrknn.trace.archive import TraceWriter
from openrknn.trace.records import BufferState
from openrknn.uapi import drm, rknpu, rocket
from openrknn.uapi.ioctl import Ioctl
from openrknn.uapi.rknpu import MemoryFlag, SyncFlag
from openrknn.uapi.tables import RKNPU_MISC, ROCKET, Table

_serials = itertools.count(1)
_LONGEST_JOB_NS = 60_000_000_000


@dataclass(eq=False)
class _Buffer:
    """One buffer of the program."""

    serial: int
    handle: int
    size: int
    address: int
    object: int = 0
    flags: int = 0
    view: mmap.mmap | None = None


class SpiedFile:
    """An open device file."""

    def __init__(self, number: int, path: str, table: Table, descriptor: int, cores: int) -> None:
        self.number = number
        self.path = path
        self.table = table
        self.descriptor = descriptor
        self._cores = cores
        self._buffers: dict[int, _Buffer] = {}
        """By handle; of /dev/rknpu, which has none, by kernel address."""
        self._imported: dict[int, int] = {}
        """Descriptors of imported memory, by handle."""
        self._gone: list[int] = []

    def close(self) -> None:
        """Let go of everything, so that the kernel can."""
        for buffer in self._buffers.values():
            _unmap(buffer)
        for descriptor in self._imported.values():
            os.close(descriptor)
        self._buffers.clear()
        self._imported.clear()
        os.close(self.descriptor)

    def lists(self, call: Call) -> Iterator[dict[int, tuple[int, bytes]]]:
        """The jobs of a SUBMIT: for each core the number of its first task, and the task descriptors."""
        if self.table is ROCKET:
            for element in call.blocks["jobs"].elements:
                yield {0: (0, _rocket_tasks(element.blocks["tasks"].data, element.values))}
            return
        mask = call.values["core_mask"] or 1  # 0: any core that is free, and the kernel does not say which
        tasks = next((buffer for buffer in self._all() if buffer.object == call.values["task_obj_addr"]), None)
        if tasks is not None and (cores := cores_of(mask)) is not None:
            ranges = {core: range_of(call.values, core, len(cores), self._cores) for core in cores}
            data, size = self._read(tasks), rknpu.TASK.size
            yield {core: (at, data[at * size : (at + count) * size]) for core, (at, count) in ranges.items()}

    def states(self, writer: TraceWriter) -> Iterator[BufferState]:
        """All buffers with an address, as the program would read them now."""
        seen: set[int] = set()
        while self._gone:
            writer.forget(self._gone.pop())
        for buffer in self._all():
            if buffer.address not in seen:  # two handles can mean one buffer
                with contextlib.suppress(OSError):  # memory that cannot be mapped, SRAM for example
                    blob = writer.blob(self._read(buffer), buffer.serial)
                    yield BufferState(buffer.serial, buffer.address, buffer.size, blob)
                    seen.add(buffer.address)

    def wait(self, call: Call) -> None:
        """rocket: until the buffers that the jobs write are written, which also cares for the caches."""
        for element in call.blocks["jobs"].elements:
            data = element.blocks["out_bo_handles"].data
            for handle in (int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)):
                deadline = time.monotonic_ns() + _LONGEST_JOB_NS
                with contextlib.suppress(OSError):
                    self._ioctl(rocket.PREP_BO, handle=handle, timeout_ns=deadline)
                    self._ioctl(rocket.FINI_BO, handle=handle)

    def refresh(self) -> None:
        """rknpu: read what the NPU wrote, not what caches remember."""
        sync = next(ioctl for ioctl in self.table.ioctls if ioctl.name == "MEM_SYNC")
        for buffer in self._all():
            if buffer.flags & MemoryFlag.CACHEABLE and buffer.object:
                for direction in (SyncFlag.TO_DEVICE, SyncFlag.FROM_DEVICE):
                    with contextlib.suppress(OSError):
                        self._ioctl(sync, flags=direction, obj_addr=buffer.object, size=buffer.size)

    def before(self, call: Call) -> None:
        """A buffer that is about to go must not be kept by us."""
        name, values = call.ioctl.name, call.values
        if name == "MEM_DESTROY":
            self._forget(values["obj_addr"] if self.table is RKNPU_MISC else values["handle"])
        elif call.ioctl is drm.GEM_CLOSE:
            self._forget(values["handle"])

    def after(self, call: Call, handed: int, opened: int) -> None:
        """A buffer that is new. The descriptors are those that went in and came out; they stay the caller's."""
        name, values = call.ioctl.name, call.values
        if name == "MEM_CREATE" and self.table is RKNPU_MISC:
            buffer = self._add(values["obj_addr"], values["size"], values["dma_addr"], values)
            descriptor = handed if handed >= 0 else opened
            if descriptor >= 0 and buffer.view is None:
                with contextlib.suppress(OSError, ValueError):
                    buffer.view = mmap.mmap(descriptor, buffer.size, prot=mmap.PROT_READ)
        elif name == "MEM_CREATE":
            self._add(values["handle"], values["size"], values["dma_addr"], values)
        elif name == "CREATE_BO":
            buffer = self._add(values["handle"], values["size"], values["dma_address"], {})
            buffer.view = mmap.mmap(self.descriptor, buffer.size, prot=mmap.PROT_READ, offset=values["offset"])
        elif call.ioctl is drm.PRIME_FD_TO_HANDLE and handed >= 0 and values["handle"] not in self._imported:
            self._imported[values["handle"]] = os.dup(handed)

    def _add(self, handle: int, size: int, address: int, values: dict[str, int]) -> _Buffer:
        buffer = self._buffers.get(handle)
        if buffer is None:
            # Programs may ask for less than whole pages; memory, and what tasks may read of it, ends with a page.
            buffer = self._buffers[handle] = _Buffer(next(_serials), handle, pages(size), address)
        buffer.object, buffer.flags = values.get("obj_addr", 0), values.get("flags", 0)
        return buffer

    def _forget(self, handle: int) -> None:
        buffer = self._buffers.pop(handle, None)
        if buffer is not None:
            _unmap(buffer)
            self._gone.append(buffer.serial)
        if handle in self._imported:
            os.close(self._imported.pop(handle))

    def _all(self) -> list[_Buffer]:
        return list(self._buffers.values())

    def _read(self, buffer: _Buffer) -> bytes:
        if buffer.view is None:
            buffer.view = self._map(buffer)
        return bytes(buffer.view)

    def _map(self, buffer: _Buffer) -> mmap.mmap:
        imported = self._imported.get(buffer.handle)
        if imported is not None:
            return mmap.mmap(imported, buffer.size, prot=mmap.PROT_READ)
        offset = self._ioctl(rknpu.MEM_MAP, handle=buffer.handle)["offset"]
        return mmap.mmap(self.descriptor, buffer.size, prot=mmap.PROT_READ, offset=offset)

    def _ioctl(self, ioctl: Ioctl, **values: int) -> dict[str, int]:
        argument = bytearray(ioctl.argument.pack(values))
        fcntl.ioctl(self.descriptor, ioctl.request, argument, True)
        return ioctl.argument.unpack(argument)


def _unmap(buffer: _Buffer) -> None:
    if buffer.view is not None:
        buffer.view.close()


def _rocket_tasks(data: bytes, values: dict[str, int]) -> bytes:
    """Descriptors without the gaps that a newer program may leave between them."""
    stride, size = max(values["task_struct_size"], 1), rocket.TASK.size
    return b"".join(data[at : at + size] for at in range(0, values["task_count"] * stride, stride))
