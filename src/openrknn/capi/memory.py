"""Memory that a program and the engine share: a memfd, or a descriptor that the program brought."""

from __future__ import annotations

import mmap
import os

import numpy as np
import numpy.typing as npt

__all__ = ["PAGE", "Memory"]

PAGE = mmap.PAGESIZE


class Memory:
    """Bytes behind a descriptor. `array` sees all that is mapped, from the descriptor's beginning on."""

    def __init__(self, fd: int, size_bytes: int, *, offset: int = 0) -> None:
        """`fd` is taken over; `size_bytes` from `offset` on are the tensor's."""
        self.fd = fd
        self.size_bytes = size_bytes
        self.offset = offset
        self.address = 0
        """Where the device sees it, once it does."""
        self.array: npt.NDArray[np.uint8] = np.frombuffer(mmap.mmap(fd, offset + size_bytes), np.uint8)

    @classmethod
    def create(cls, size_bytes: int, name: str = "openrknn") -> Memory:
        """New memory, zeroed, in whole pages."""
        fd = os.memfd_create(name, os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, -(-size_bytes // PAGE) * PAGE)
            return cls(fd, size_bytes)
        except BaseException:
            os.close(fd)
            raise

    @property
    def tensor(self) -> npt.NDArray[np.uint8]:
        """The bytes of the tensor."""
        return self.array[self.offset : self.offset + self.size_bytes]

    def close(self) -> None:
        """Give the descriptor back. The mapping stays while an array sees it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
