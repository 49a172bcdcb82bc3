"""Evidence for jobs of `rocket` whose own results leave none: the last task once more, into memory of its own.

The last task may work in place, or write where an earlier one has written, or write too few bytes that are known. Then
the job runs it again with another target, which nothing else uses. The driver starts a task when the one before it has
reported its end, so a result there shows that all tasks of the job have ended. Unless it works in place, both results
are equal; where they differ, one was not written.

Where few bytes are certain, the task runs twice more. Both have the same result, and their marks differ in every bit:
one of them must go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.chip.rk3588.dpu import DstBaseAddr
from openrknn.chips import Chip
from openrknn.container.parts import Task
from openrknn.device.proof import ENOUGH_BYTES, Mark, first_write, known_bytes, mark_at
from openrknn.errors import RknnError
from openrknn.isa.words import TAIL_WORDS, WORD_BYTES, Command, Target, place_of, with_value
from openrknn.npu import Machine, TaskRef
from openrknn.npu.accesses import Access, accesses_of
from openrknn.npu.memory import Memory
from openrknn.npu.task import Step

__all__ = ["Repeats", "are_the_same", "repeats_of"]

_PLACE = Command(Target.DPU, DstBaseAddr.offset, 0).word
_ALIGNMENT = 4096


class Repeats(NamedTuple):
    """How a task is run again. Each time needs `size_bytes`: the commands, then the result."""

    task: Task
    words: npt.NDArray[np.uint64]
    target_at: int
    """Which word holds the address of the result."""
    before: int
    """Bytes that may be written before that address."""
    walk: Access
    is_in_place: bool
    """Whether the task may read what it has written: then it has another result the second time."""
    times: int
    size_bytes: int

    def put(self, address: int, memory: Memory) -> tuple[list[Task], list[Mark]]:
        """Write the commands to memory that begins at this address."""
        tasks: list[Task] = []
        marks: list[Mark] = []
        offset = self.walk.address - _target(self.words, self.target_at)
        for start in range(address, address + self.times * self.size_bytes, self.size_bytes):
            target = start + _aligned(self.words.nbytes) + self.before
            words = self.words.copy()
            words[self.target_at] = with_value(int(words[self.target_at]), target)
            memory.view(start, words.nbytes, "commands", write=True)[...] = words.view(np.uint8)
            tasks.append(self.task._replace(address=start))
            marks.append(mark_at(self.walk, target + offset, memory, marks[0] if marks else None))
        return tasks, marks

    def original(self, memory: Memory) -> Mark | None:
        """Where the task itself has the result of its repetitions."""
        return None if self.is_in_place else mark_at(self.walk, self.walk.address, memory)


def repeats_of(task: Task, step: Step, memory: Memory) -> Repeats | None:
    """None where the task does not say itself where its result goes."""
    words = memory.view(task.address, (task.amount + TAIL_WORDS) * WORD_BYTES, "commands").view(np.uint64).copy()
    at = np.flatnonzero(place_of(words[: task.amount]) == _PLACE)
    walks = list(accesses_of(step))
    writes = [one for one in walks if one.writes]
    walk = first_write(writes)
    if at.size != 1 or walk is None:
        return None
    target = _target(words, int(at[0]))
    first, end = min(one.first for one in writes), max(one.end for one in writes)
    before, behind = _aligned(max(target - first, 0)), _aligned(end - target)
    in_place = any(one.first < end and one.end > first for one in walks if not one.writes)
    times = 1 if np.prod(known_bytes(walk)) >= ENOUGH_BYTES else 2
    return Repeats(task, words, int(at[0]), before, walk, in_place, times, _aligned(words.nbytes) + before + behind)


def are_the_same(tasks: Sequence[Task], count: int, chip: Chip, memory: Memory) -> bool:
    """Whether the last `count` tasks of a job do what the one before them does, elsewhere.

    Registers that a task leaves out come from an earlier one, and blocks use two sets of them in turn.
    """
    references = [TaskRef(number, task.address, task.amount, task.op_index) for number, task in enumerate(tasks)]
    try:
        steps = Machine(chip, memory).prepare([references]).steps[-count - 1 :]
    except RknnError:
        return False  # the job may need registers of an earlier one
    first, *others = [list(accesses_of(step)) for step in steps]
    return all(_moved(first, other) == other for other in others)


def _moved(walks: Sequence[Access], like: Sequence[Access]) -> list[Access]:
    """With the target of another task."""
    here, there = first_write(walks), first_write(like)
    if here is None or there is None:
        return []
    by = there.address - here.address
    return [replace(one, address=one.address + by) if one.writes else one for one in walks]


def _target(words: npt.NDArray[np.uint64], at: int) -> int:
    return Command.decode(int(words[at])).value


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
