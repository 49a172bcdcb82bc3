"""An address space of the NPU, as the IOMMU's page tables describe it, in one piece of this process's memory.

The pages of a buffer lie anywhere in the memory of the virtual machine. Here they are mapped side by side, so that the
software NPU sees what the NPU sees, and nothing is copied. Addresses without a page have anonymous memory behind them:
a program that was decoded before they were unmapped must not end this process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading

import numpy as np
import numpy.typing as npt

from openrknn.board.guest_memory import PAGE, GuestMemory
from openrknn.board.iommu import PAGE_BYTES, pages_of
from openrknn.chips import Chip
from openrknn.errors import DeviceError
from openrknn.fakekernel.execution import ExecutionSpace
from openrknn.fakekernel.states import CoreStates
from openrknn.npu import Buffer

__all__ = ["PHYSICAL", "Domain", "Domains"]

_SPACE_BYTES = 1 << 32
_MOST_DOMAINS = 16
PHYSICAL = -1
"""Stands for a page directory where there is no IOMMU."""
_MAP_FIXED = 0x10
_MAP_NORESERVE = 1 << 14
_mmap = ctypes.CDLL(None, use_errno=True).mmap
_mmap.restype = ctypes.c_void_p
_mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
)  # fmt: skip
_Pages = npt.NDArray[np.int64]


class Domain:
    """The pages that one page directory maps."""

    def __init__(self, chip: Chip, states: CoreStates, number: int) -> None:
        if PAGE != PAGE_BYTES:
            needed = f"a virtual board needs {PAGE_BYTES}, as the NPU's IOMMU"
            raise DeviceError(f"this machine has pages of {PAGE} bytes; {needed}")
        self.space = ExecutionSpace(chip, states, strict=False)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self._window = np.frombuffer(mmap.mmap(-1, _SPACE_BYTES, flags=flags), np.uint8)
        self._pages: _Pages = np.empty((0, 2), np.int64)
        self._runs: dict[tuple[int, int], int] = {}
        self._last = number << 32  # no two pieces of memory of a board have the same number
        self._lock = threading.Lock()

    def update(self, memory: GuestMemory, directory: int) -> None:
        """Look at the page tables again, and map what has changed."""
        pages = pages_of(memory, directory)
        with self._lock:
            if np.array_equal(pages, self._pages):
                return
            before = dict(self._pages.tolist())
            now: dict[int, int] = dict(pages.tolist())
            for first, count in _neighbours(sorted(before.keys() - now.keys())):
                self._map(first, count, -1, 0)
            changed = [number for number, place in now.items() if before.get(number) != place]
            for first, count in _neighbours(changed, now):
                self._map_guest(memory, first, count, now[first])
            self._pages = pages
            self._set_buffers({(first, count) for first, count in _neighbours(pages[:, 0].tolist())})

    def update_physical(self, memory: GuestMemory) -> None:
        """Without an IOMMU the NPU sees the guest's memory as it is, up to 4 GiB."""
        with self._lock:
            runs = {(address // PAGE, (min(end, _SPACE_BYTES) - address) // PAGE) for address, end in memory.ranges()}
            for first, count in runs - self._runs.keys():
                self._map_guest(memory, first, count, first * PAGE)
            self._set_buffers(runs)

    def _set_buffers(self, runs: set[tuple[int, int]]) -> None:
        for run in self._runs.keys() - runs:
            self.space.remove(self._runs.pop(run))
        for first, count in sorted(runs - self._runs.keys()):
            self._last += 1
            self._runs[first, count] = self._last
            address, end = first * PAGE, (first + count) * PAGE
            self.space.add(self._last, Buffer(address, self._window[address:end], f"pages at {address:#x}"))

    def _map_guest(self, memory: GuestMemory, first: int, count: int, address: int) -> None:
        place = memory.place(address)
        if place is None or place.left < count * PAGE:
            self._map(first, count, -1, 0)  # a page table that points nowhere
        else:
            self._map(first, count, place.descriptor, place.offset)

    def _map(self, first: int, count: int, descriptor: int, offset: int) -> None:
        """Replace what is mapped by pages of a file, or by anonymous pages without a descriptor."""
        kind = mmap.MAP_SHARED if descriptor >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        where = self._window.ctypes.data + first * PAGE
        mapped = _mmap(
            where, count * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, kind | _MAP_FIXED, descriptor, offset
        )  # fmt: skip
        if mapped != where:
            code = ctypes.get_errno()
            raise DeviceError(f"{count} pages of the virtual board cannot be mapped: {os.strerror(code)}")


class Domains:
    """The domains of a board, by the address of their page directory. The last ones are kept."""

    def __init__(self, chip: Chip, memory: GuestMemory) -> None:
        self._chip = chip
        self._memory = memory
        self.states = CoreStates()
        """Of the cores: registers do not belong to an address space."""
        self._made = 0
        self._domains: dict[int, Domain] = {}
        self._lock = threading.Lock()

    def at(self, directory: int) -> Domain:
        """The domain, as its page tables are now."""
        with self._lock:
            domain = self._domains.pop(directory, None) or self._new()
            self._domains[directory] = domain  # the last one used is the last one to go
            if len(self._domains) > _MOST_DOMAINS:
                del self._domains[next(iter(self._domains))]
        if directory == PHYSICAL:
            domain.update_physical(self._memory)
        else:
            domain.update(self._memory, directory)
        return domain

    def _new(self) -> Domain:
        self._made += 1
        return Domain(self._chip, self.states, self._made)


def _neighbours(numbers: list[int], places: dict[int, int] | None = None) -> list[tuple[int, int]]:
    """First and count of consecutive numbers in ascending order; with `places`, those have to follow each other too."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs:
            first, count = runs[-1]
            if number == first + count and (places is None or places[number] == places[first] + count * PAGE):
                runs[-1] = first, count + 1
                continue
        runs.append((number, 1))
    return runs
