"""Memory that users bring: dma-bufs of cameras and decoders, and plain arrays."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.records import dataclass


@dataclass(frozen=True, slots=True)
class DmaBuf:
    """A piece of a dma-buf, or of anything else that can be mapped. The descriptor stays the user's."""

    fd: int
    size_bytes: int | None = None
    """None: up to its end."""
    offset: int = 0

    def length(self) -> int:
        """How many bytes are used."""
        total = os.lseek(self.fd, 0, os.SEEK_END)  # how a dma-buf reports its size; OSError if it is none
        room = total - self.offset
        wanted = room if self.size_bytes is None else self.size_bytes
        if self.offset < 0 or not 0 < wanted <= room:
            raise ValueError(f"descriptor {self.fd} has {total} bytes; {wanted} from {self.offset} on are wanted")
        return wanted


def mapped(piece: DmaBuf) -> npt.NDArray[np.uint8]:
    """The memory of a dma-buf; it stays mapped while the array lives."""
    size = piece.length()
    return np.frombuffer(mmap.mmap(piece.fd, piece.offset + size), np.uint8)[piece.offset :]


def as_bytes(memory: object, name: str, needed: int, dtype: np.dtype[Any]) -> npt.NDArray[np.uint8]:
    """A dma-buf or a user's array as writable bytes, at least `needed` of them.

    Nothing converts what is in there, so an array has the tensor's own type, or is bytes.
    """
    if isinstance(memory, DmaBuf):
        view = mapped(memory)
    elif isinstance(memory, np.ndarray):
        if not memory.flags.c_contiguous or not memory.flags.writeable:
            raise ValueError(f"{name!r}: the array must be contiguous and writable")
        if memory.dtype not in (dtype, np.uint8):
            raise TypeError(
                f"{name!r}: bound memory is used as it is, so the array has to be {dtype} or uint8 (bytes), not "
                f"{memory.dtype}; `run` converts"
            )
        view = memory.reshape(-1).view(np.uint8)
    else:
        raise TypeError(f"{name!r}: memory is a DmaBuf or a NumPy array, not {type(memory).__name__}")
    if view.nbytes < needed:
        raise ValueError(f"{name!r} needs {needed} bytes of memory, this has {view.nbytes}")
    return view
