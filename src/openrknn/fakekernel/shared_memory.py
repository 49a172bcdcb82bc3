"""The NPU's memory in the engine: buffers that programs map too, looked up by several threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from openrknn.npu import Buffer, Memory

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

    @contextmanager
    def noting(self, touched: set[Buffer]) -> Iterator[None]:
        """Collect the buffers that this thread looks up meanwhile."""
        self._notes.touched = touched
        try:
            yield
        finally:
            self._notes.touched = None
