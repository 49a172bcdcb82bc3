"""From task descriptors to the tasks that the NPU's program counter would run, and the interrupt that ends them.

rknpu tells the hardware where the first task's commands are, and how many tasks there are; from there on each task
leads to the next: it writes the address and the length of the next one to the PC, and starts its blocks. The vendor's
streams do so in their last four words. Boards also run streams that do it earlier, with words behind that do nothing
or belong to the next task (allbilly/rk3588 elementwise, silu, where on an Orange Pi 5): what counts is what the PC
holds after the last word that it fetches. rocket starts each task by itself.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from openrknn.chips import Chip
from openrknn.fakekernel.shared_memory import SharedMemory
from openrknn.fakekernel.space import counted_from
from openrknn.isa.words import (
    AMOUNTS,
    BASE,
    TAIL_WORDS,
    WORD_BYTES,
    Target,
    fetch_amount,
    fetched_commands,
    parts_of,
    target_of,
)  # fmt: skip
from openrknn.npu import TaskRef
from openrknn.uapi import rknpu, rocket

__all__ = ["COUNTER", "DPU_DONE", "PPU_DONE", "Chain", "read_chain", "started_at"]

COUNTER = "counter"
_REGISTERS = struct.Struct("<III")

DPU_DONE = 0x100
PPU_DONE = 0x400
"""Of register group 0; group 1 is the bit beside it."""
_DPU_BITS = 0x18
_PPU_BITS = 0x60


@dataclass(frozen=True)
class Chain:
    """The tasks of one core."""

    tasks: tuple[TaskRef, ...]
    status: int
    """The interrupt bits when it is through."""
    stuck: str = ""
    """Why it never gets through, if so."""


def read_chain(memory: SharedMemory, chip: Chip, kind: str, first: int, raw: bytes, *, base: int = 0) -> Chain:
    """The tasks behind descriptors of `kind` ("rknpu" or "rocket") or behind the PC's registers, from `first` on.

    All addresses in `memory` count from `base` (PC.TASK_DMA_BASE_ADDR), as those in commands do. The one that a driver
    gives to the PC does not: the vendor's runtime 2.3.2 of RV1106 submits the address where it loaded an image, and
    the same as the base, while the image's links count from its start.
    """
    if kind == COUNTER:
        return _started(memory, chip, raw, base)
    return _rocket(memory, chip, raw) if kind == "rocket" else _rknpu(memory, chip, first, raw, base)


def started_at(address: int, amounts: int, count: int) -> bytes:
    """What `read_chain` takes of the kind `COUNTER`: registers of the PC when a driver starts it."""
    return _REGISTERS.pack(address, amounts, count)


def _started(memory: SharedMemory, chip: Chip, raw: bytes, base: int) -> Chain:
    """`count` tasks: each leads to the next, as it does for rknpu; rocket has the PC run one."""
    address, amounts, count = _REGISTERS.unpack(raw)
    tasks = [TaskRef(0, counted_from(base, address), fetched_commands(amounts, chip), 0)]
    while len(tasks) < count:
        link = _link(memory, chip, tasks[-1])
        if link is None:
            return Chain(tuple(tasks), 0, f"the commands of task {len(tasks) - 1} do not lead to a next task")
        tasks.append(TaskRef(len(tasks), link[0], link[1], len(tasks)))
    return Chain(tuple(tasks), _status(_counter(memory, tasks[-1]).mask, tasks))


def _rocket(memory: SharedMemory, chip: Chip, raw: bytes) -> Chain:
    """Each task is a run of its own, and the driver waits for the DPU after each. The PC fetches pairs of words."""
    tasks: list[TaskRef] = []
    for offset in range(0, len(raw), rocket.TASK.size):
        task = rocket.TASK.unpack(raw, offset)
        fetches = fetch_amount(task["regcmd_count"] - TAIL_WORDS, chip.words_per_fetch)
        number, amount = len(tasks), fetched_commands(fetches, chip)
        tasks.append(TaskRef(number, task["regcmd"], amount, number))
        mask = _counter(memory, tasks[-1]).mask
        if not mask & _DPU_BITS:
            return Chain(tuple(tasks), _status(mask, tasks), f"task {number} does not end in the DPU")
    return Chain(tuple(tasks), DPU_DONE)


def _rknpu(memory: SharedMemory, chip: Chip, first: int, raw: bytes, base: int) -> Chain:
    tasks: list[TaskRef] = []
    for offset in range(0, len(raw), rknpu.TASK.size):
        task = rknpu.TASK.unpack(raw, offset)
        number, operator = first + len(tasks), task["op_idx"]
        address = counted_from(base, task["regcmd_addr"])
        reference = TaskRef(number, address, task["regcfg_amount"], operator)
        if tasks:
            link = _link(memory, chip, tasks[-1])
            if link is None:
                return Chain(tuple(tasks), 0, f"the commands of task {number - 1} do not lead to a next task")
            if link[0] != reference.address:  # the hardware knows no descriptors: it goes where the link leads
                reference = TaskRef(number, link[0], link[1], operator)
        tasks.append(reference)
    return Chain(tuple(tasks), _status(_counter(memory, tasks[-1]).mask, tasks))


class _Counter(NamedTuple):
    """What a task leaves in the PC."""

    base: int | None = None
    amounts: int = 0
    mask: int = 0
    """Of the blocks that it started last."""


def _counter(memory: SharedMemory, task: TaskRef) -> _Counter:
    """The vendor's streams end with base, amounts, SYNC, enable; in others the words are anywhere."""
    words = memory.view(task.address, (task.amount + TAIL_WORDS) * WORD_BYTES, "PC fetch").view(np.uint64)
    starts = target_of(words) == Target.ENABLE
    return _read(words[-TAIL_WORDS:] if starts[-1] and not np.any(starts[:-TAIL_WORDS]) else words)


def _read(words: npt.NDArray[np.uint64]) -> _Counter:
    counter = _Counter()
    for target, offset, value in parts_of(words):
        if target == Target.ENABLE:
            counter = counter._replace(mask=value)
        elif (target, offset) == BASE[:2]:
            counter = counter._replace(base=value)
        elif (target, offset) == AMOUNTS[:2]:
            counter = counter._replace(amounts=value)
    return counter


def _link(memory: SharedMemory, chip: Chip, task: TaskRef) -> tuple[int, int] | None:
    """Address of the next task's commands, and their number without the last four."""
    counter = _counter(memory, task)
    if counter.base is None:
        return None
    return counter.base, fetched_commands(counter.amounts, chip)


def _status(mask: int, tasks: list[TaskRef]) -> int:
    """Which block reports, in which group: with ping-pong the groups take turns."""
    group = (len(tasks) - 1) & 1
    if mask & _PPU_BITS:
        return PPU_DONE << group
    return DPU_DONE << group if mask & _DPU_BITS else 0
