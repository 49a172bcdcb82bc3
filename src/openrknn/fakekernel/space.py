"""Device addresses: which parts of an address space are free, and where the next buffer goes.

The vendor's driver allocates through the kernel's IOVA allocator, which starts at the top and aligns a buffer to its
size, here at most to 64 KiB (Android's limit, which the addresses in public logs obey). rocket uses drm_mm: lowest
place first, page by page.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator

__all__ = ["PAGE", "SPACE_END", "AddressSpace", "counted_from", "on_bus", "pages"]

PAGE = 4096
_LARGEST_ALIGNMENT = 0x10000
SPACE_END = 1 << 32
"""The NPU's addresses have 32 bits, and sums of them wrap around."""


def pages(size: int) -> int:
    """`size` rounded up to whole pages."""
    return -(-size // PAGE) * PAGE


def counted_from(base: int, address: int, size: int = 0) -> int:
    """What commands call an address if they count from a base; addresses below it follow all the others.

    Memory with the base inside starts below 0: commands reach the rest of it.
    """
    return address - base + (SPACE_END if address + size <= base and address != base else 0)


def on_bus(base: int, address: int) -> int:
    """The address that the NPU puts on the bus for one in commands."""
    return (address + base) % SPACE_END


class AddressSpace:
    """Free gaps in [start, end), in ascending order."""

    def __init__(self, start: int, end: int, *, highest_first: bool) -> None:
        self._starts = [start]
        self._ends = [end]
        self._highest_first = highest_first

    @property
    def free_bytes(self) -> int:
        return sum(end - start for start, end in zip(self._starts, self._ends, strict=True))

    def allocate(self, size: int) -> int | None:
        """The address of `size` bytes (whole pages), or None if no gap is large enough."""
        for gap in self._order():
            start, end = self._starts[gap], self._ends[gap]
            if end - start < size:
                continue
            address = (end - size) & -_alignment(size) if self._highest_first else start
            if address >= start:
                self._cut(gap, address, address + size)
                return address
        return None

    def free(self, address: int, size: int) -> None:
        """Give a range back; neighbours grow together."""
        gap = bisect.bisect_left(self._starts, address)
        start, end = address, address + size
        if gap < len(self._starts) and self._starts[gap] == end:
            end = self._ends[gap]
            del self._starts[gap], self._ends[gap]
        if gap and self._ends[gap - 1] == start:
            self._ends[gap - 1] = end
        else:
            self._starts.insert(gap, start)
            self._ends.insert(gap, end)

    def _order(self) -> Iterator[int]:
        count = len(self._starts)
        return iter(range(count - 1, -1, -1) if self._highest_first else range(count))

    def _cut(self, gap: int, start: int, end: int) -> None:
        left, right = (self._starts[gap], start), (end, self._ends[gap])
        rest = [piece for piece in (left, right) if piece[0] < piece[1]]
        self._starts[gap : gap + 1] = [piece[0] for piece in rest]
        self._ends[gap : gap + 1] = [piece[1] for piece in rest]


def _alignment(size: int) -> int:
    return min(1 << max(size - 1, 1).bit_length(), _LARGEST_ALIGNMENT)
