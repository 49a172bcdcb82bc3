"""The NPU's memory in the engine: buffers that programs map too, looked up by several threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from openrknn.npu import Buffer, Memory
from openrknn.npu.memory import Bytes

__all__ = ["SharedMemory"]


class SharedMemory(Memory):
    """A memory that may change while jobs run, and that can note which buffers a job looks up."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._notes = threading.local()

    def add(self, buffer: Buffer) -> Buffer:
        with self._lock:
            return super().add(buffer)

    def remove(self, buffer: Buffer) -> None:
        with self._lock:
            super().remove(buffer)

    def at(self, address: int, size: int, what: str) -> Buffer:
        with self._lock:
            buffer = super().at(address, size, what)
        touched: set[Buffer] | None = getattr(self._notes, "touched", None)
        if touched is not None:
            touched.add(buffer)
        return buffer

    def view(self, address: int, size: int, what: str, *, write: bool = False) -> Bytes:
        views: set[tuple[int, int]] | None = getattr(self._notes, "views", None)
        if views is not None:
            views.add((address, size))
        return super().view(address, size, what, write=write)

    @contextmanager
    def noting(self, touched: set[Buffer], views: set[tuple[int, int]] | None = None) -> Iterator[None]:
        """Collect the buffers that this thread looks up meanwhile, and the bytes that it views (address, size)."""
        self._notes.touched, self._notes.views = touched, views
        try:
            yield
        finally:
            self._notes.touched = self._notes.views = None
