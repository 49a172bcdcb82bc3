"""Tasks as jobs of the driver `rocket`: each ends within the driver's limit, can be checked, and can run on any core.

A task may leave out registers that an earlier one has written, and look up in tables that an earlier one has loaded.
The driver may start the next job on another core, or after the NPU was switched off, so a job begins only at a task
that writes all registers that were written before it; its tables are loaded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from openrknn.chip.rk3588.dpu_lut import LutAccessCfg, LutAccessData
from openrknn.chips import Chip
from openrknn.container.parts import Task
from openrknn.cost.boards import Board, board_of
from openrknn.cost.decoded import step_works
from openrknn.cost.time import spent_by
from openrknn.device.proof import Proof, proof_of
from openrknn.isa.words import WORD_BYTES, Target
from openrknn.npu.memory import Memory
from openrknn.npu.task import Convolution, Flying, Step, TableLoad
from openrknn.uapi import rocket

__all__ = ["LIMIT_SECONDS", "Entry", "RocketJob", "entries_of", "jobs_of"]

LIMIT_SECONDS = rocket.JOB_TIMEOUT_MS / 1000
_SLOW_HERTZ = 200_000_000
"""The NPU's clock in the mainline device tree: nothing raises it."""
_TASK_SECONDS = 100e-6
"""Each task ends with an interrupt, and a thread of the kernel starts the next one: 80 to 100 us on boards."""
_MARGIN = 2.0
"""How much longer than estimated a job may take."""
_TABLE_DATA = {(Target.DPU << 16) + LutAccessCfg.offset, (Target.DPU << 16) + LutAccessData.offset}


class Entry(NamedTuple):
    """A task, and what a job needs that begins with it."""

    task: Task
    step: Step
    seconds: float
    """That it takes at most, by estimate."""
    loads: tuple[Task, ...]
    """Tasks that load its tables, if it looks up in any."""
    can_begin: bool
    """Whether a job may begin here."""


class RocketJob(NamedTuple):
    """What one SUBMIT runs."""

    tasks: list[Task]
    proof: Proof
    last: Entry
    spare_seconds: float
    """How much more it may take, by estimate."""


def entries_of(tasks: Sequence[tuple[Task, Step]], memory: Memory, chip: Chip) -> list[Entry]:
    """All tasks of a list, in order."""
    amounts = {step.task: task.amount for task, step in tasks}
    board = _slow(board_of(chip), chip)
    works = step_works((step for _, step in tasks), amounts, chip)
    seconds = {number: spent_by(work, board).seconds for number, work in works.items()}
    found: list[Entry] = []
    loads: tuple[Task, ...] = ()
    loaded: frozenset[int] = frozenset()
    before: frozenset[int] = frozenset()
    loads_go_on = False
    for task, step in tasks:
        own = _registers(task, memory)
        if isinstance(step, TableLoad):
            loads, loaded = ((*loads, task), loaded | own) if loads_go_on else ((task,), own)
        loads_go_on = isinstance(step, TableLoad)
        needs = loads if _looks_up(step) else ()
        blocks = {register >> 16 for register in own}
        missing = before - own - (loaded if needs else frozenset()) - _TABLE_DATA
        can_begin = not any(register >> 16 in blocks for register in missing)
        found.append(Entry(task, step, seconds[step.task], needs, can_begin))
        before |= own
    return found


def jobs_of(entries: Sequence[Entry], memory: Memory) -> Iterator[RocketJob]:
    """Consecutive tasks of the NPU as jobs. A task that takes too long by itself is a job of its own."""
    for part in _in_time(entries):
        job = _without_last_loads(part)
        if not job:
            continue
        loads = next((entry.loads for entry in job if entry.loads or isinstance(entry.step, TableLoad)), ())
        tasks = [entry.task for entry in job]
        if loads and loads[0] not in tasks:
            tasks = [*loads, *tasks]
        spare = LIMIT_SECONDS / _MARGIN - sum(entry.seconds for entry in job) - _TASK_SECONDS * (len(tasks) - len(job))
        yield RocketJob(tasks, proof_of([entry.step for entry in job], memory), job[-1], spare)


def _without_last_loads(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The next job loads its tables again."""
    end = len(entries)
    while end and isinstance(entries[end - 1].step, TableLoad):
        end -= 1
    return entries[:end]


def _in_time(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    first, last = 0, 0
    spent = 0.0
    for number, entry in enumerate(entries):
        spent += entry.seconds
        if entry.can_begin and number > first:
            last = number  # a job can end before this task
        if spent * _MARGIN > LIMIT_SECONDS and last > first:
            yield entries[first:last]
            first = last
            spent = sum(one.seconds for one in entries[first : number + 1])
    yield entries[first:]


def _registers(task: Task, memory: Memory) -> frozenset[int]:
    """The registers that a task writes: their block in the upper half, their offset in the lower one."""
    words = memory.view(task.address, task.amount * WORD_BYTES, "commands").view(np.uint64)
    places = (words >> np.uint64(48)) << np.uint64(16) | words & np.uint64(0xFFFF)
    return frozenset(np.unique(places).tolist())


def _looks_up(step: Step) -> bool:
    if not isinstance(step, Convolution | Flying) or step.dpu.element_wise is None:
        return False
    return step.dpu.element_wise.table is not None


def _slow(board: Board, chip: Chip) -> Board:
    """The NPU at its slowest, while the other cores use the memory as well."""
    shared = board.shared_by(chip.cores)
    rate = shared.bytes_per_second * _SLOW_HERTZ / board.hertz
    return replace(
        shared, hertz=_SLOW_HERTZ, bytes_per_second=rate, task_seconds=_TASK_SECONDS, stream_bytes_per_second=None
    )
