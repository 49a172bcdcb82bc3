"""Buffers: memory that programs map and the NPU sees at an address. Handles belong to an open file, names to a device.

A buffer is a memfd. Programs map it themselves, the engine maps it too, and a dma-buf descriptor is a copy of its
descriptor: nothing is ever copied.
"""

from __future__ import annotations

import errno
import fcntl
import heapq
import itertools
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from openrknn.fakekernel.space import PAGE, AddressSpace, pages
from openrknn.uapi.drm import MMAP_BASE

__all__ = ["Buffer", "Buffers", "Handles", "Inodes", "Space", "new_memory", "seal"]

_MMAP_END = 1 << 44
_SPACE_BYTES = 1 << 32
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
"""The size of a buffer is fixed: a program that shortened it under the engine's hands would crash it, and with it
jobs of others. Nor can anybody seal it against writing."""
_MOST_INODES = 1 << 16


@dataclass(eq=False)
class Space:
    """An address space of the NPU (an IOMMU domain), and what is in it."""

    number: int
    addresses: AddressSpace
    buffers: dict[int, Buffer] = field(default_factory=dict)
    """By serial number."""
    unseen: dict[int, Buffer] = field(default_factory=dict)
    """Those that the engine has not mapped yet."""


class Writer(Protocol):
    """A job that writes a buffer."""

    done: threading.Event


@dataclass(eq=False)
class Buffer:
    """One GEM object."""

    serial: int
    descriptor: int
    inode: int
    size: int
    flags: int
    space: Space
    address: int
    offset: int
    """What mmap is given for it."""
    imported: bool = False
    references: int = 0
    """Handles and jobs; a name does not keep it alive."""
    name: int = 0
    writers: list[Writer] = field(default_factory=list)
    """rocket: jobs that are not done yet and may write it."""
    is_freed: bool = False

    def read(self, offset: int, size: int) -> bytes:
        """Bytes as the program left them; EBADF if it has freed the buffer."""
        return os.pread(self._checked(), size, offset)

    def write(self, offset: int, data: bytes) -> None:
        """What the kernel writes into it."""
        os.pwrite(self._checked(), data, offset)

    def _checked(self) -> int:
        """The number of a closed descriptor may be somebody else's by now."""
        if self.is_freed:
            raise OSError(errno.EBADF, "the buffer was freed")
        return self.descriptor


class Buffers:
    """All buffers of one device."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.removed: list[Buffer] = []
        """Buffers that are gone and that the engine still has mapped; emptied at the next message to it."""
        self.total_bytes = 0
        self._serials = itertools.count(1)
        self._by_inode: dict[int, Buffer] = {}
        self._by_serial: dict[int, Buffer] = {}
        self._by_offset: dict[int, Buffer] = {}
        self._names: dict[int, Buffer] = {}
        self._offsets = AddressSpace(MMAP_BASE, _MMAP_END, highest_first=False)

    def __len__(self) -> int:
        return len(self._by_serial)

    def __iter__(self) -> Iterator[Buffer]:
        return iter(list(self._by_serial.values()))

    def create(self, size: int, flags: int, space: Space, label: str) -> Buffer:
        """New zeroed memory; ENOMEM if there is none."""
        if pages(size) >= _SPACE_BYTES:
            raise OSError(errno.ENOMEM, "larger than the NPU's address space")
        return self._add(new_memory(pages(size), label), flags, space)

    def adopt(self, descriptor: int, flags: int, space: Space) -> Buffer:
        """The buffer behind a descriptor that a program hands in: an emulated one, or foreign memory."""
        with self.lock:
            status = os.fstat(descriptor)
            known = self._by_inode.get(status.st_ino)
            if known is not None and known.space is space:
                return known
            if not stat.S_ISREG(status.st_mode) or not status.st_size or status.st_size % PAGE:
                raise OSError(errno.EINVAL, "not a dma-buf: those are whole pages")
            seal(descriptor)
            return self._add(os.dup(descriptor), flags, space, imported=True)

    def find_serial(self, serial: int) -> Buffer | None:
        """By the number that stands for its kernel address."""
        return self._by_serial.get(serial)

    def find_inode(self, inode: int) -> Buffer | None:
        """By the inode of its memory."""
        return self._by_inode.get(inode)

    def find_offset(self, offset: int) -> Buffer | None:
        """By the offset that mmap is given."""
        return self._by_offset.get(offset)

    def find_name(self, name: int) -> Buffer | None:
        """By its global name."""
        return self._names.get(name)

    def give_name(self, buffer: Buffer) -> int:
        """A number by which other files can open it; the same one every time."""
        with self.lock:
            if not buffer.name:
                buffer.name = next(number for number in itertools.count(1) if number not in self._names)
                self._names[buffer.name] = buffer
            return buffer.name

    def keep(self, buffer: Buffer) -> None:
        """One more handle or job needs it."""
        with self.lock:
            buffer.references += 1

    def release(self, buffer: Buffer) -> None:
        """One less; the last one frees it."""
        with self.lock:
            buffer.references -= 1
            if buffer.references == 0:
                self._remove(buffer)

    def _add(self, descriptor: int, flags: int, space: Space, *, imported: bool = False) -> Buffer:
        with self.lock:
            status = os.fstat(descriptor)
            size = pages(status.st_size)
            address = space.addresses.allocate(size)
            if address is None:
                os.close(descriptor)
                raise OSError(errno.ENOMEM, "the NPU's address space is full")
            offset = self._offsets.allocate(size)
            if offset is None:
                space.addresses.free(address, size)
                os.close(descriptor)
                raise OSError(errno.ENOMEM, "no offset is left for mmap")
            buffer = Buffer(
                next(self._serials), descriptor, status.st_ino, size, flags, space, address, offset, imported
            )
            space.buffers[buffer.serial] = space.unseen[buffer.serial] = buffer
            self._by_serial[buffer.serial] = self._by_offset[offset] = buffer
            self._by_inode.setdefault(buffer.inode, buffer)
            self.total_bytes += size
            return buffer

    def _remove(self, buffer: Buffer) -> None:
        del buffer.space.buffers[buffer.serial], self._by_serial[buffer.serial], self._by_offset[buffer.offset]
        if self._by_inode.get(buffer.inode) is buffer:
            del self._by_inode[buffer.inode]
        self._names.pop(buffer.name, None)
        buffer.space.addresses.free(buffer.address, buffer.size)
        self._offsets.free(buffer.offset, buffer.size)
        self.total_bytes -= buffer.size
        if buffer.space.unseen.pop(buffer.serial, None) is None:
            self.removed.append(buffer)
        buffer.is_freed = True
        os.close(buffer.descriptor)


class Handles:
    """The handles of one open file: small numbers, the lowest free one first."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._by_handle: dict[int, Buffer] = {}
        self._of_buffer: dict[Buffer, list[int]] = {}
        self._free: list[int] = []
        self._next = 1

    def __len__(self) -> int:
        return len(self._by_handle)

    def get(self, handle: int) -> Buffer | None:
        """The buffer, or None for an unknown handle."""
        return self._by_handle.get(handle)

    def holds(self, buffer: Buffer) -> bool:
        """Whether any handle of the file means this buffer."""
        return buffer in self._of_buffer

    def add(self, buffer: Buffer, *, again: bool = False) -> int:
        """A handle for the buffer; `again` gives the one that it has already."""
        with self._buffers.lock:
            if again and (known := self._of_buffer.get(buffer)):
                return known[0]
            handle = heapq.heappop(self._free) if self._free else self._next
            self._next = max(self._next, handle + 1)
            self._by_handle[handle] = buffer
            self._of_buffer.setdefault(buffer, []).append(handle)
            self._buffers.keep(buffer)
            return handle

    def remove(self, handle: int) -> bool:
        """Close a handle; False if there is none."""
        with self._buffers.lock:
            buffer = self._by_handle.pop(handle, None)
            if buffer is None:
                return False
            self._of_buffer[buffer].remove(handle)
            if not self._of_buffer[buffer]:
                del self._of_buffer[buffer]
            heapq.heappush(self._free, handle)
            self._buffers.release(buffer)
            return True

    def clear(self) -> None:
        """Close all."""
        for handle in list(self._by_handle):
            self.remove(handle)


class Inodes:
    """Memory that was handed out and belongs to no device: only the latest, because its release is not reported."""

    def __init__(self) -> None:
        self._known: dict[int, None] = {}
        self._lock = threading.Lock()

    def add(self, inode: int) -> None:
        with self._lock:
            self._known.pop(inode, None)
            self._known[inode] = None
            if len(self._known) > _MOST_INODES:
                del self._known[next(iter(self._known))]

    def knows(self, inode: int) -> bool:
        return inode in self._known


def new_memory(size: int, label: str) -> int:
    """A descriptor of zeroed memory of fixed size; ENOMEM if there is none."""
    try:
        descriptor = os.memfd_create(label, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:  # out of descriptors: to the program it looks like being out of memory
        raise OSError(errno.ENOMEM, error.strerror) from error
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    except OSError as error:
        os.close(descriptor)
        raise OSError(errno.ENOMEM, error.strerror) from error
    return descriptor


def seal(descriptor: int) -> None:
    """Memory that a program brings must keep its size from now on, as that of a dma-buf does; EINVAL if it cannot."""
    try:
        sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        if sealed & fcntl.F_SEAL_WRITE:
            raise OSError(errno.EINVAL, "sealed against writing")
        if not sealed & fcntl.F_SEAL_SHRINK or not sealed & fcntl.F_SEAL_SEAL:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    except OSError as error:
        raise OSError(errno.EINVAL, f"not a dma-buf, and its size may change: {error.strerror}") from error
