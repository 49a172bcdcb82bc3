"""From task descriptors to the tasks that the NPU's program counter would run, and the interrupt that ends them.

rknpu tells the hardware where the first task's commands are, and how many tasks there are; from there on the last
four words of each task lead to the next (HARDWARE: each stream ends with the address and the length of the next one).
rocket starts each task by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openrknn.chips import Chip
from openrknn.fakekernel.shared_memory import SharedMemory
from openrknn.isa import TAIL_WORDS, Target
from openrknn.npu import TaskRef
from openrknn.uapi import rknpu, rocket

__all__ = ["DPU_DONE", "PPU_DONE", "Chain", "read_chain"]

DPU_DONE = 0x100
PPU_DONE = 0x400
"""Of register group 0; group 1 is the bit beside it."""
_DPU_BITS = 0x18
_PPU_BITS = 0x60
_AMOUNT_MASK = 0xFFFF


@dataclass(frozen=True)
class Chain:
    """The tasks of one core."""

    tasks: tuple[TaskRef, ...]
    status: int
    """The interrupt bits when it is through."""
    stuck: str = ""
    """Why it never gets through, if so."""


def read_chain(memory: SharedMemory, chip: Chip, kind: str, first: int, raw: bytes) -> Chain:
    """The tasks behind descriptors of `kind` ("rknpu" or "rocket"), numbered from `first`."""
    return _rocket(memory, raw) if kind == "rocket" else _rknpu(memory, chip, first, raw)


def _rocket(memory: SharedMemory, raw: bytes) -> Chain:
    """Each task is a run of its own, and the driver waits for the DPU after each."""
    tasks: list[TaskRef] = []
    for offset in range(0, len(raw), rocket.TASK.size):
        task = rocket.TASK.unpack(raw, offset)
        number, amount = len(tasks), max(task["regcmd_count"] - TAIL_WORDS, 0)
        tasks.append(TaskRef(number, task["regcmd"], amount, number))
        *_, enable = _words(memory, tasks[-1])
        if not enable >> 16 & _DPU_BITS:
            return Chain(tuple(tasks), _status(enable, tasks), f"task {number} does not end in the DPU")
    return Chain(tuple(tasks), DPU_DONE)


def _rknpu(memory: SharedMemory, chip: Chip, first: int, raw: bytes) -> Chain:
    tasks: list[TaskRef] = []
    for offset in range(0, len(raw), rknpu.TASK.size):
        task = rknpu.TASK.unpack(raw, offset)
        number, operator = first + len(tasks), task["op_idx"]
        reference = TaskRef(number, task["regcmd_addr"], task["regcfg_amount"], operator)
        if tasks:
            link = _link(memory, chip, tasks[-1])
            if link is None:
                return Chain(tuple(tasks), 0, f"the commands of task {number - 1} do not lead to a next task")
            if link[0] != reference.address:  # the hardware knows no descriptors: it goes where the link leads
                reference = TaskRef(number, link[0], link[1], operator)
        tasks.append(reference)
    *_, enable = _words(memory, tasks[-1])
    return Chain(tuple(tasks), _status(enable, tasks))


def _words(memory: SharedMemory, task: TaskRef) -> list[int]:
    """The last four words of a task."""
    place = task.address + task.amount * 8
    words: list[int] = memory.view(place, TAIL_WORDS * 8, "PC fetch").view(np.uint64).tolist()
    return words


def _link(memory: SharedMemory, chip: Chip, task: TaskRef) -> tuple[int, int] | None:
    """Address of the next task's commands, and their number without the last four."""
    base, amounts, *_ = _words(memory, task)
    if base >> 48 != Target.PC:
        return None
    words = ((amounts >> 16 & _AMOUNT_MASK) + 1) * (2 if chip.paired_amounts else 1)
    return base >> 16 & 0xFFFFFFFF, max(words - TAIL_WORDS, 0)


def _status(enable: int, tasks: list[TaskRef]) -> int:
    """Which block reports, in which group: with ping-pong the groups take turns."""
    mask = enable >> 16
    group = (len(tasks) - 1) & 1
    if mask & _PPU_BITS:
        return PPU_DONE << group
    return DPU_DONE << group if mask & _DPU_BITS else 0
