"""Making memory: the four ways of the C API, with every argument checked before the library sees it."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

from openrknn.backports import flags_in
from openrknn.vendor.library.handle import Handle, NativeContext
from openrknn.vendor.library.library import Library
from openrknn.vendor.memory.tensor_memory import TensorMemory
from openrknn.vendor.tables.enums import AllocFlag, InitFlag, MemoryOrigin

_LARGEST = 2**32 - 1


class MemoryOwner(NativeContext):
    """A context that memory can belong to; closing it closes its memories."""

    def create_memory(self, size_bytes: int, flags: AllocFlag | None = None) -> TensorMemory:
        """`rknn_create_mem`; with flags `rknn_create_mem2` (2.0.0-beta0)."""
        size = checked_size(size_bytes)
        if flags is None:
            return self._make("rknn_create_mem", size)
        for flag in flags_in(AllocFlag(flags)):
            self.library.require_value(flag)
        return self._make("rknn_create_mem2", size, int(flags))

    def memory_from_fd(
        self, fd: int, size_bytes: int, *, offset: int = 0, buffer: object = None
    ) -> TensorMemory:
        """`rknn_create_mem_from_fd`: a dma-buf, of which `size_bytes` from `offset` on are used.

        `buffer` is a writable mapping of it from its beginning (an mmap, an array, or an address); without one the
        dma-buf is mapped here. The descriptor stays the caller's and must stay open.
        """
        size = checked_size(size_bytes)
        if offset < 0:
            raise ValueError(f"an offset of {offset} bytes is before the start of the buffer")
        known = os.fstat(fd).st_size  # raises OSError if it is not a descriptor
        if 0 < known < offset + size:
            raise ValueError(f"descriptor {fd} has {known} bytes, {offset} + {size} are wanted")
        owner = mmap.mmap(fd, offset + size) if buffer is None else buffer
        address, kept = address_of(owner, offset + size)
        return self._make(
            "rknn_create_mem_from_fd", fd, address, size, offset, origin=MemoryOrigin.FROM_FD, kept=kept
        )

    def memory_from_physical(self, address: int, size_bytes: int, *, buffer: object = None) -> TensorMemory:
        """`rknn_create_mem_from_phys`: memory at a device address; `buffer` is where the CPU sees it, if it does."""
        size = checked_size(size_bytes)
        if not 0 <= address < 2**64:
            raise ValueError(f"{address:#x} is not an address")
        virtual, kept = (None, None) if buffer is None else address_of(buffer, size)
        return self._make(
            "rknn_create_mem_from_phys", address, virtual, size, origin=MemoryOrigin.FROM_PHYS, kept=kept
        )

    def memory_from_mb_blk(self, block: int, *, offset: int = 0) -> TensorMemory:
        """`rknn_create_mem_from_mb_blk`: a block of the vendor's media library. No known library exports it."""
        if block <= 0 or offset < 0:
            raise ValueError("a media block is an address that is not 0, and its offset is not negative")
        return self._make("rknn_create_mem_from_mb_blk", block, offset)

    def _make(
        self, name: str, *arguments: Any, origin: MemoryOrigin = MemoryOrigin.ALLOC_INSIDE, kept: object = None
    ) -> TensorMemory:
        with self._lock:
            self._ensure_open()
            self.library.require(name)
            pointer = self.library.function(name)(self._handle.value, *arguments)
            memory = TensorMemory(self._handle, pointer, name, origin=origin, kept=kept)
            self._closers.append(memory.close)
            memory.on_close(self._forget)
            return memory

    def _forget(self, memory: TensorMemory) -> None:
        self._closers = [closer for closer in self._closers if closer != memory.close]


def memory_without_context(library: Library, size_bytes: int, flags: AllocFlag = AllocFlag.DEFAULT) -> TensorMemory:
    """Memory before there is any context (2.1.0), for a model that is not to be copied; see `Context`."""
    library.require_value(InitFlag.MEM_ALLOC_NO_CONTEXT)
    library.require("rknn_create_mem2")
    handle = Handle(library, 0, None)
    wanted = int(flags) | int(InitFlag.MEM_ALLOC_NO_CONTEXT)
    pointer = library.function("rknn_create_mem2")(0, checked_size(size_bytes), wanted)
    return TensorMemory(handle, pointer, "rknn_create_mem2")


def checked_size(size_bytes: int) -> int:
    """A size that the library can take: 32 bits, and not 0."""
    if not isinstance(size_bytes, int):
        raise TypeError(f"a size is a number of bytes, not {type(size_bytes).__name__}")
    if not 0 < size_bytes <= _LARGEST:
        raise ValueError(f"memory has between 1 byte and 4 GB, not {size_bytes}")
    return size_bytes


def address_of(buffer: object, size_bytes: int) -> tuple[int, memoryview | None]:
    """Where a buffer begins, after making sure that it is long enough and writable, and what keeps it there."""
    if isinstance(buffer, int):
        if buffer <= 0:
            raise ValueError("an address is not 0")
        return buffer, None
    view = memoryview(buffer)  # type: ignore[arg-type]  # raises TypeError for anything but a buffer
    if not view.c_contiguous or view.readonly:
        raise ValueError("the buffer must be contiguous and writable")
    if view.nbytes < size_bytes:
        raise ValueError(f"the buffer has {view.nbytes} bytes, {size_bytes} are wanted")
    flat = view.cast("B")
    return ctypes.addressof(ctypes.c_ubyte.from_buffer(flat)), flat
