"""The address space of a device whose jobs and allocations overlap."""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.npu.memory import Buffer, Memory

__all__ = ["SharedMemory"]


class SharedMemory(Memory):
    """Jobs look addresses up while another session allocates: each change makes a new map, and no map ever changes."""

    def __init__(self) -> None:
        super().__init__()
        self._map = Memory()

    def __iter__(self) -> Iterator[Buffer]:
        return iter(self._map)

    def add(self, buffer: Buffer) -> Buffer:
        self._map = Memory([*self._map, buffer])
        self.changes += 1
        return buffer

    def remove(self, buffer: Buffer) -> None:
        self._map = Memory([other for other in self._map if other is not buffer])
        self.changes += 1

    def at(self, address: int, size: int, what: str) -> Buffer:
        return self._map.at(address, size, what)
