"""The memory of the virtual machine: files that it gave us, at physical addresses."""

from __future__ import annotations

import mmap
import os
import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["PAGE", "GuestMemory", "Place"]

PAGE = mmap.PAGESIZE


@dataclass(frozen=True)
class Place:
    """Where in which file a physical address is."""

    descriptor: int
    offset: int
    left: int
    """Bytes from there to the end of the region."""


@dataclass(frozen=True)
class _Region:
    address: int
    size: int
    descriptor: int
    offset: int
    mapped: mmap.mmap

    @property
    def end(self) -> int:
        return self.address + self.size


class GuestMemory:
    """Regions by address. All devices of a board see the same memory: what one has been told the others know."""

    def __init__(self) -> None:
        self._regions: dict[int, _Region] = {}
        self._lock = threading.Lock()

    def add(self, address: int, size: int, descriptor: int, offset: int) -> None:
        """A region; the descriptor is ours now. One that is known already stays as it is."""
        with self._lock:
            if address in self._regions:
                os.close(descriptor)
                return
            mapped = mmap.mmap(descriptor, size, offset=offset)
            self._regions[address] = _Region(address, size, descriptor, offset, mapped)

    def remove(self, address: int) -> None:
        """A region is gone."""
        with self._lock:
            region = self._regions.pop(address, None)
        if region is not None:
            os.close(region.descriptor)

    def ranges(self) -> list[tuple[int, int]]:
        """Start and end of each region that begins below 4 GiB."""
        with self._lock:
            return [(region.address, region.end) for region in self._regions.values() if region.address < 1 << 32]

    def place(self, address: int) -> Place | None:
        """Where an address is; None if no memory is there."""
        region = self._at(address)
        if region is None:
            return None
        inside = address - region.address
        return Place(region.descriptor, region.offset + inside, region.size - inside)

    def table(self, address: int, entries: int) -> npt.NDArray[np.uint32] | None:
        """A copy of `entries` 32-bit words; None if no memory is there."""
        region = self._at(address)
        if region is None or address + 4 * entries > region.end:
            return None
        return np.frombuffer(region.mapped, np.uint32, entries, address - region.address).copy()

    def _at(self, address: int) -> _Region | None:
        with self._lock:
            for region in self._regions.values():
                if region.address <= address < region.end:
                    return region
        return None
