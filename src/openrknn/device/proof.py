"""Evidence that a job ran: bytes that its tasks must overwrite.

A driver that drops a job, or ends it after its time limit, may still report success (`rocket` does both). So random
bytes are written to places that a task of the job writes, and that nothing reads before; if they are still there
afterwards, the task did not run. Places are chosen among the channels of the first pixels that a task writes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from openrknn.npu.accesses import Access, accesses_of
from openrknn.npu.memory import Memory
from openrknn.npu.task import Step

__all__ = ["Mark", "Proof", "proof_of"]

_ENOUGH_BYTES = 16
"""Of one task: that a result equals so many random bytes does not happen."""


class Mark:
    """Bytes of one task's result. `is_random`: they are overwritten before the job; else remembered."""

    def __init__(self, place: npt.NDArray[np.uint8], *, is_random: bool = True) -> None:
        self._place, self.is_random = place, is_random
        self._before = b""

    @property
    def size(self) -> int:
        return self._place.size

    def set(self) -> None:
        """Write random bytes, other ones each time."""
        if self.is_random:
            self._place[...] = np.frombuffer(secrets.token_bytes(self.size), np.uint8).reshape(self._place.shape)
        self._before = self._place.tobytes()

    @property
    def is_gone(self) -> bool:
        """Whether the task wrote its result. False of a task that works in place may mean that it changed nothing."""
        return self._place.tobytes() != self._before


class Proof:
    """The marks of a job."""

    def __init__(self, marks: Sequence[Mark], last: Mark | None) -> None:
        self._marks, self._last = marks, last

    def set(self) -> None:
        """Before the job."""
        for mark in self._marks:
            mark.set()

    @property
    def can_tell(self) -> bool:
        """Whether results that are still as before mean that the job did not run."""
        return any(mark.is_random for mark in self._marks)

    @property
    def is_sure(self) -> bool:
        """Whether there are so many random bytes that results cannot equal them by accident."""
        return sum(mark.size for mark in self._marks if mark.is_random) >= _ENOUGH_BYTES

    @property
    def has_last(self) -> bool:
        """Whether the last task has a mark."""
        return self._last is not None

    @property
    def began(self) -> bool:
        """Whether a task wrote its result."""
        return any(mark.is_gone for mark in self._marks)

    @property
    def ended(self) -> bool:
        """Whether the last task is known to have written its result."""
        return self._last is not None and self._last.is_gone


def proof_of(steps: Sequence[Step], memory: Memory) -> Proof:
    """Marks for tasks that run in this order."""
    walks = [list(accesses_of(step)) for step in steps]
    reads = _ranges(walks, writes=False)
    writes = _ranges(walks, writes=True)
    marks: dict[int, Mark] = {}
    for number in (len(steps) - 1, *range(len(steps) - 1)):
        mark = _mark(walks[number], number, reads, memory)
        if mark is not None:
            marks[number] = mark
        if sum(mark.size for mark in marks.values()) >= _ENOUGH_BYTES:
            break
    last = marks.get(len(steps) - 1)
    if last is not None and _written_before(walks[-1], len(steps) - 1, writes):
        last = None  # it shows that an earlier one ran
    if len(steps) == 1 and last is None:
        last = _remembered(walks[0], memory)
        marks.update({0: last} if last is not None else {})
    return Proof(list(marks.values()), last)


def _ranges(walks: Sequence[Iterable[Access]], *, writes: bool) -> npt.NDArray[np.int64]:
    """Rows of (task, first address, end)."""
    found = [(n, one.first, one.end) for n, many in enumerate(walks) for one in many if one.writes is writes]
    return np.array(found, np.int64).reshape(-1, 3)


def _first_write(walks: Iterable[Access]) -> Access | None:
    """Its first atom has all lanes that the others have."""
    return next((one for one in walks if one.writes), None)


def _mark(walks: Iterable[Access], number: int, reads: npt.NDArray[np.int64], memory: Memory) -> Mark | None:
    """Where the task writes, and nothing up to it reads."""
    walk = _first_write(walks)
    if walk is None or min(walk.steps[1:3]) < 0:
        return None
    rows = columns = lanes = 1
    if walk.exact:  # otherwise only the first byte is known to be written
        _, rows, columns, atom = walk.shape
        lanes = min(walk.channels * walk.element_bytes or 1, atom)
        columns = min(columns, -(-_ENOUGH_BYTES // lanes))
        rows = min(rows, -(-_ENOUGH_BYTES // (lanes * columns)))
    end = walk.address + (rows - 1) * walk.steps[1] + (columns - 1) * walk.steps[2] + lanes
    if (_overlapping(reads, walk.address, end) & (reads[:, 0] <= number)).any():
        return None
    return Mark(memory.strided(walk.address, (rows, columns, lanes), (*walk.steps[1:3], 1), "a mark", write=True))


def _written_before(walks: Iterable[Access], number: int, writes: npt.NDArray[np.int64]) -> bool:
    walk = _first_write(walks)
    return walk is not None and bool((_overlapping(writes, walk.first, walk.end) & (writes[:, 0] < number)).any())


def _remembered(walks: Iterable[Access], memory: Memory) -> Mark | None:
    """Of a task that works in place: what is there before."""
    walk = _first_write(walks)
    if walk is None:
        return None
    return Mark(memory.view(walk.first, walk.end - walk.first, "a mark"), is_random=False)


def _overlapping(ranges: npt.NDArray[np.int64], first: int, end: int) -> npt.NDArray[np.bool_]:
    return (ranges[:, 1] < end) & (ranges[:, 2] > first)
