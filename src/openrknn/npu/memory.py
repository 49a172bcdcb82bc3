"""Device memory: buffers at addresses, and views into them that cannot leave them.

A DMA of the NPU walks through memory in nested steps. `Memory.strided` turns such a walk into a NumPy view without a
copy, after checking that its first and last byte are in one buffer; on a board the access would be an IOMMU fault.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.errors import AccessError
from openrknn.records import dataclass

Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Bytes with a device address."""

    address: int
    data: Bytes
    name: str = ""
    constant: bool = False
    """Its contents do not change between runs, other than by what the NPU writes."""

    @property
    def end(self) -> int:
        return self.address + self.data.nbytes


class Memory:
    """The address space that the blocks of one NPU see."""

    def __init__(self, buffers: Sequence[Buffer] = ()) -> None:
        self._starts: list[int] = []
        self._buffers: list[Buffer] = []
        self.changes = 0
        """How often buffers came or went."""
        self.before_access: Callable[[int, int], None] | None = None
        """Called with address and size before anybody sees bytes, where some of them are not there yet."""
        for buffer in buffers:
            self.add(buffer)

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._buffers)

    def add(self, buffer: Buffer) -> Buffer:
        """Map a buffer; it must not overlap another one."""
        place = bisect.bisect_right(self._starts, buffer.address)
        before = self._buffers[place - 1] if place else None
        after = self._buffers[place] if place < len(self._buffers) else None
        if (before and before.end > buffer.address) or (after and buffer.end > after.address):
            raise ValueError(f"buffer {buffer.name!r} at {buffer.address:#x} overlaps another one")
        self._starts.insert(place, buffer.address)
        self._buffers.insert(place, buffer)
        self.changes += 1
        return buffer

    def remove(self, buffer: Buffer) -> None:
        """Unmap a buffer."""
        place = self._buffers.index(buffer)
        del self._buffers[place], self._starts[place]
        self.changes += 1

    def at(self, address: int, size: int, what: str) -> Buffer:
        """The buffer that holds all `size` bytes at `address`."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place >= 0 and address + size <= self._buffers[place].end:
            return self._buffers[place]
        near = self._buffers[place] if place >= 0 else None
        hint = f"; the buffer {near.name!r} before it ends at {near.end:#x}" if near else ""
        raise AccessError(f"{what}: {size} bytes at {address:#x} are in no buffer{hint}", address=address)

    def view(self, address: int, size: int, what: str, *, write: bool = False) -> Bytes:
        """`size` bytes at `address`, not copied; `write` says what an error is about."""
        buffer = self.holding(address, address + size, what, write=write)
        start = address - buffer.address
        return buffer.data[start : start + size]

    def strided(
        self, address: int, shape: Sequence[int], steps: Sequence[int], what: str, *, write: bool = False
    ) -> Bytes:
        """An array of bytes whose axes step through memory by `steps` bytes each; not copied."""
        buffer = self.holding(*extent(address, shape, steps), what, write=write)
        return np.lib.stride_tricks.as_strided(
            buffer.data[address - buffer.address :], shape=tuple(shape), strides=tuple(steps), writeable=write
        )

    def holding(self, start: int, end: int, what: str, *, write: bool = False) -> Buffer:
        """The buffer that holds all bytes from `start` to before `end`, which somebody is about to see."""
        try:
            found = self.at(start, end - start, what)
        except AccessError as error:
            error.is_write = write
            raise
        if self.before_access is not None:
            self.before_access(start, end - start)
        return found


def extent(address: int, shape: Sequence[int], steps: Sequence[int]) -> tuple[int, int]:
    """The first address of a walk, and the one behind its last byte."""
    first = last = address
    for size, step in zip(shape, steps, strict=True):
        distance = (size - 1) * step
        if distance < 0:
            first += distance
        else:
            last += distance
    return first, last + 1


def pointer_to(array: npt.NDArray[Any]) -> int:
    """Where an array begins; `array.ctypes.data` makes three objects to say it."""
    pointer: int = array.__array_interface__["data"][0]
    return pointer
