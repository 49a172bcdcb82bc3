"""A decoded program on the fastest kernels, and the constants that these kernels took for granted.

Native kernels pack weights and read operands per channel once. On a board a program may change them at any time, so
here they are compared with what they were, before every run; after a change the kernels are prepared again.
"""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from openrknn.fakekernel.shared_memory import SharedMemory
from openrknn.npu import Buffer, Program
from openrknn.npu.memory import Bytes
from openrknn.npu.native import Accelerated, accelerate
from openrknn.npu.task import Step

__all__ = ["Plan", "signature"]

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_NEAR = 64
_PIECE = 1 << 19
_helper = ThreadPoolExecutor(1, "constants")
_NOT_CONFIGURATION = {"memory", "native"}


class _Constants:
    """Bytes that must not change. Comparing megabytes costs as much as a few layers, so two threads share it."""

    def __init__(self, views: Iterable[Bytes]) -> None:
        self._kept = [(view, view.copy()) for view in views]
        pieces = [piece for view, copy in self._kept for piece in _pieces(view, copy)]
        self._halves = pieces[::2], pieces[1::2]

    def are_same(self) -> bool:
        ours, theirs = self._halves
        if not theirs:
            return _are_same(ours)
        other = _helper.submit(_are_same, theirs)
        return _are_same(ours) & other.result()


_Piece: TypeAlias = tuple[int, int, int]
"""Two addresses and a size."""


def _pieces(view: Bytes, copy: Bytes) -> Iterator[_Piece]:
    for start in range(0, view.nbytes, _PIECE):
        yield view.ctypes.data + start, copy.ctypes.data + start, min(_PIECE, view.nbytes - start)


def _are_same(pieces: Iterable[_Piece]) -> bool:
    return not any(_memcmp(*piece) for piece in pieces)


class Plan:
    """A program that can run again and again."""

    def __init__(self, program: Program, memory: SharedMemory, buffers: set[Buffer]) -> None:
        self.macs = sum(step.macs for step in program.steps)
        self.buffers = buffers
        """What it needs; complete once it has run."""
        self.is_noted = False
        self._program = program
        self._memory = memory
        self._fast: Accelerated | None = None
        self._constants = _Constants([])

    def run(self) -> None:
        """Execute it on what is in memory now."""
        fast = self._fast
        if fast is None or not self._constants.are_same():
            fast = self._accelerate()
        if self.is_noted:
            fast.run()
            return
        with self._memory.noting(self.buffers):
            fast.run()
        self.is_noted = True

    def _accelerate(self) -> Accelerated:
        views: set[tuple[int, int]] = set()
        with self._memory.noting(self.buffers, views):
            self._fast = accelerate(self._program, self._memory, is_constant=lambda buffer: True)
        self._constants = _Constants([])
        if self._fast.kernels is not None:  # NumPy reads everything when it runs
            written = [extent for step in self._program.steps for extent in step.writes()]
            fixed = [entry for entry in views if not _meets(entry, written)]
            self._constants = _Constants(self._view(start, end) for start, end in self._joined(fixed))
        return self._fast

    def _view(self, start: int, end: int) -> Bytes:
        return self._memory.view(start, end - start, "constants")

    def _joined(self, regions: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Neighbours of one buffer as one: a few long comparisons are faster than many short ones."""
        first = last = limit = -1
        for address, size in sorted(regions):
            if first >= 0 and address <= last + _NEAR and address + size <= limit:
                last = max(last, address + size)
                continue
            if first >= 0:
                yield first, last
            first, last = address, address + size
            limit = self._memory.at(address, size, "constants").end
        if first >= 0:
            yield first, last


def _meets(region: tuple[int, int], written: Iterable[tuple[int, int]]) -> bool:
    address, size = region
    return any(start < address + size and address < start + count for start, count in written)


def signature(program: Program) -> bytes | None:
    """Equal for programs that do the same; None if that cannot be said."""
    try:
        return pickle.dumps([_configuration(step) for step in program.steps])
    except (pickle.PicklingError, TypeError, AttributeError):
        return None


def _configuration(step: Step) -> tuple[str, dict[str, object]]:
    return type(step).__name__, {name: value for name, value in vars(step).items() if name not in _NOT_CONFIGURATION}
