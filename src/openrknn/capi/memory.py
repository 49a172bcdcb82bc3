"""Memory that a program and the engine share: a memfd, or a descriptor that the program brought."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openrknn.capi.call import CallError, Code
from openrknn.device import Device, DeviceBuffer

Bytes = npt.NDArray[np.uint8]
PAGE = mmap.PAGESIZE
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Memory:
    """Bytes behind a descriptor. `array` sees all that is mapped, from the descriptor's beginning on."""

    def __init__(self, fd: int, size_bytes: int, *, offset: int = 0) -> None:
        """`fd` is taken over; `size_bytes` from `offset` on are the tensor's."""
        self.fd = fd
        self.size_bytes = size_bytes
        self.offset = offset
        self.address = 0
        """Where the NPU sees it (`phys_addr`); 0 if it has no place of its own."""
        whole = min(-(-(offset + size_bytes) // PAGE) * PAGE, os.lseek(fd, 0, os.SEEK_END))
        self.array: Bytes = np.frombuffer(mmap.mmap(fd, max(whole, offset + size_bytes)), np.uint8)
        self.buffer: DeviceBuffer | None = None
        """What the NPU sees, if it was allocated by a kernel driver."""

    @classmethod
    def create(cls, size_bytes: int, name: str = "openrknn") -> Memory:
        """New memory, zeroed, in whole pages, sealed against shrinking."""
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, -(-size_bytes // PAGE) * PAGE)
            with contextlib.suppress(OSError):
                fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
            return cls(fd, size_bytes)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def of_device(cls, device: Device, size_bytes: int) -> Memory | None:
        """Memory of a kernel driver as a dma-buf; None for a device that has none.

        It is freed when nothing is bound to it any more.
        """
        export: Callable[[DeviceBuffer], int | None] | None = getattr(device, "export", None)
        if export is None:
            return None
        buffer = device.allocate(size_bytes, "tensor")
        descriptor = export(buffer)
        if descriptor is None:
            device.free(buffer)
            return None
        made = cls(descriptor, size_bytes)
        made.buffer, made.address, made.array = buffer, buffer.address, buffer.array
        weakref.finalize(made, device.free, buffer)
        return made

    @classmethod
    def of_descriptor(cls, fd: int, size_bytes: int, offset: int) -> Memory:
        """Memory that the program brings: a dma-buf, a memfd, anything that can be mapped. `fd` is taken over."""
        try:
            total = os.lseek(fd, 0, os.SEEK_END)
            if offset < 0 or size_bytes < 1 or offset + size_bytes > total:
                raise CallError(
                    Code.PARAM_INVALID,
                    f"the descriptor has {total} bytes; {size_bytes} from {offset} on were asked for",
                )
            return cls(fd, size_bytes, offset=offset)
        except (OSError, ValueError) as error:
            os.close(fd)
            reason = getattr(error, "strerror", None) or str(error)
            raise CallError(Code.FAIL, f"the descriptor cannot be mapped: {reason}") from None
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def of_memory(cls, other: Memory, offset: int, size_bytes: int) -> Memory:
        """A second view of another memory's pages, `offset` bytes behind the start of its tensor."""
        return cls.of_descriptor(os.dup(other.fd), size_bytes, other.offset + offset)

    def piece(self, offset: int, size_bytes: int) -> Piece:
        """What `rknn_tensor_mem` says: `size_bytes` from `offset` on."""
        return Piece(self, offset, size_bytes)

    def region(self, offset: int, size_bytes: int, needed: int) -> Bytes:
        """What `rknn_tensor_mem` says: `size_bytes` from `offset` on; at least `needed` must be there."""
        if offset < 0 or size_bytes < 0:
            raise CallError(Code.PARAM_INVALID, f"offset {offset} and size {size_bytes} are no piece of a memory")
        piece = self.array[offset : min(offset + size_bytes, self.offset + self.size_bytes)]
        if piece.nbytes < needed:
            raise CallError(
                Code.FAIL,
                f"{needed} bytes are needed, and the memory has {piece.nbytes} from offset {offset} on",
            )
        return piece

    def close(self) -> None:
        """Give the descriptor back. The mapping stays while an array sees it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a memory, not yet looked at."""

    memory: Memory
    offset: int
    size_bytes: int

    def region(self, needed: int) -> Bytes:
        """Its first bytes, `needed` of them."""
        return self.memory.region(self.offset, self.size_bytes, needed)[:needed]

    def with_room(self, needed: int, room: int) -> Bytes | None:
        """At least `room` bytes, if the bytes beyond `needed` are unused: behind the memory, to the end of its page.

        The NPU writes more than the bytes that a query says some outputs have, on a board as well.
        """
        end = self.memory.offset + self.memory.size_bytes
        is_last = self.offset + needed >= end
        if room > needed and not is_last:
            return None
        pages = -(-room // PAGE) * PAGE if is_last else room
        found = self.memory.array[self.offset : self.offset + pages]
        return found if found.nbytes >= room else None


class _Sent(int):
    """A descriptor for one reply: closed when the reply is gone."""

    def __del__(self) -> None:
        os.close(self)


def file_of(data: bytes | memoryview, name: str) -> int:
    """A memfd with these bytes, for a reply that is too large for a packet; it is closed automatically."""
    made = _Sent(os.memfd_create(name, os.MFD_CLOEXEC))
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(made, rest) :]
    return made
