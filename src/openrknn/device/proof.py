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

__all__ = ["ENOUGH_BYTES", "Mark", "Proof", "first_write", "known_bytes", "last_marks", "mark_at", "proof_of"]

ENOUGH_BYTES = 16
"""Of one task: that a result equals so many random bytes does not happen."""
_FEW_BYTES = 8
"""It happens once in 10^19 runs."""


class Mark:
    """Bytes of one task's result, which are overwritten before the job."""

    def __init__(self, place: npt.NDArray[np.uint8], opposite: Mark | None = None) -> None:
        """`opposite`: a mark of a task with the same result. It gets other bytes, so that one of the two must go."""
        self._place, self._opposite = place, opposite
        self._before = b""

    @property
    def size(self) -> int:
        return self._place.size

    def set(self) -> None:
        """Write random bytes, other ones each time."""
        if self._opposite is None:
            self._before = secrets.token_bytes(self.size)
        else:
            self._before = bytes(value ^ 0xFF for value in self._opposite._before)
        self._place[...] = np.frombuffer(self._before, np.uint8).reshape(self._place.shape)

    @property
    def is_gone(self) -> bool:
        """Whether the task wrote its result."""
        return self.now != self._before

    @property
    def now(self) -> bytes:
        return self._place.tobytes()


class Proof:
    """The marks of a job. `last`: those that only go when its last task has run. `original` has their result then."""

    def __init__(self, marks: Sequence[Mark], last: Sequence[Mark], original: Mark | None = None) -> None:
        self._marks, self._last, self._original = marks, last, original

    def set(self) -> None:
        """Before the job."""
        for mark in self._marks:
            mark.set()

    @property
    def can_tell(self) -> bool:
        """Whether there is a mark at all."""
        return bool(self._marks)

    @property
    def is_sure(self) -> bool:
        """Whether a job that runs removes marks: results cannot equal so many random bytes by accident."""
        return sum(mark.size for mark in self._marks) >= ENOUGH_BYTES or self.is_sure_of_last

    @property
    def is_sure_of_last(self) -> bool:
        """The same, of the marks of its end."""
        return len(self._last) > 1 or any(mark.size >= ENOUGH_BYTES for mark in self._last)

    @property
    def began(self) -> bool:
        """Whether a task wrote its result."""
        return any(mark.is_gone for mark in self._marks)

    @property
    def ended(self) -> bool:
        """Whether the last task is known to have written its result."""
        return any(mark.is_gone for mark in self._last)

    @property
    def is_whole(self) -> bool:
        """Whether nothing shows that the last task left out its result."""
        if self._original is not None:
            return any(mark.now == self._original.now for mark in self._last)
        return self.ended or not self.is_sure_of_last

    def with_last(self, marks: Sequence[Mark], original: Mark | None) -> Proof:
        """With tasks behind the last one, which do the same elsewhere. `original`: where it has the same result."""
        return Proof([*self._marks, *marks], marks, original)


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
        if sum(mark.size for mark in marks.values()) >= ENOUGH_BYTES:
            break
    last = marks.get(len(steps) - 1)
    if last is not None and _written_before(walks[-1], len(steps) - 1, writes):
        last = None  # it shows that an earlier one ran
    return Proof(list(marks.values()), [last] if last is not None else [])


def last_marks(lists: Sequence[Sequence[Step]], memory: Memory) -> list[Mark]:
    """Of each list, which run at the same time, a mark of the last task whose own bytes are enough for one.

    Nothing else goes there before this task has; one that writes there later has run too if the mark is gone.
    """
    walks = [list(accesses_of(step)) for steps in lists for step in steps]
    reads, writes = _ranges(walks, writes=False), _ranges(walks, writes=True)
    marks: list[Mark] = []
    start = 0
    for steps in lists:
        end = start + len(steps)
        for number in reversed(range(start, end)):
            walk = first_write(walks[number])
            if walk is None or min(walk.steps[1:3]) < 0 or np.prod(known_bytes(walk)) < _FEW_BYTES:
                continue
            readers, writers = (ranges[_overlapping(ranges, *_span(walk)), 0] for ranges in (reads, writes))
            users = np.concatenate([readers, writers[writers != number]])
            if ((users > number) & (users < end)).all():
                marks.append(mark_at(walk, walk.address, memory))
                break
        start = end
    return marks


def first_write(walks: Iterable[Access]) -> Access | None:
    """Its first atom has all lanes that the others have."""
    return next((one for one in walks if one.writes), None)


def known_bytes(walk: Access) -> tuple[int, int, int]:
    """Rows, columns and lanes at the beginning of a walk that are enough for a mark and certainly written."""
    if not walk.exact:
        return 1, 1, 1
    _, rows, columns, atom = walk.shape
    lanes = min(walk.channels * walk.element_bytes or 1, atom)
    columns = min(columns, -(-ENOUGH_BYTES // lanes))
    return min(rows, -(-ENOUGH_BYTES // (lanes * columns))), columns, lanes


def mark_at(walk: Access, address: int, memory: Memory, opposite: Mark | None = None) -> Mark:
    """A mark for a walk that begins at this address."""
    place = memory.strided(address, known_bytes(walk), (*walk.steps[1:3], 1), "a mark", write=True)
    return Mark(place, opposite)


def _ranges(walks: Sequence[Iterable[Access]], *, writes: bool) -> npt.NDArray[np.int64]:
    """Rows of (task, first address, end)."""
    found = [(n, one.first, one.end) for n, many in enumerate(walks) for one in many if one.writes is writes]
    return np.array(found, np.int64).reshape(-1, 3)


def _mark(walks: Iterable[Access], number: int, reads: npt.NDArray[np.int64], memory: Memory) -> Mark | None:
    """Where the task writes, and nothing up to it reads."""
    walk = first_write(walks)
    if walk is None or min(walk.steps[1:3]) < 0:
        return None
    if (_overlapping(reads, *_span(walk)) & (reads[:, 0] <= number)).any():
        return None
    return mark_at(walk, walk.address, memory)


def _span(walk: Access) -> tuple[int, int]:
    """From where to where its mark reaches."""
    rows, columns, lanes = known_bytes(walk)
    return walk.address, walk.address + (rows - 1) * walk.steps[1] + (columns - 1) * walk.steps[2] + lanes


def _written_before(walks: Iterable[Access], number: int, writes: npt.NDArray[np.int64]) -> bool:
    walk = first_write(walks)
    return walk is not None and bool((_overlapping(writes, walk.first, walk.end) & (writes[:, 0] < number)).any())


def _overlapping(ranges: npt.NDArray[np.int64], first: int, end: int) -> npt.NDArray[np.bool_]:
    return (ranges[:, 1] < end) & (ranges[:, 2] > first)
