"""Jobs of a trace on the software NPU, and what they gave compared with what was recorded.

On the emulated device both are the same program, so a difference means that it is not deterministic. A trace that was
recorded on a board answers the real question: does the software NPU do what silicon does?
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from openrknn.chips import chip_named
from openrknn.fakekernel.space import counted_from
from openrknn.isa.words import TAIL_WORDS
from openrknn.npu import Buffer, Machine, Memory, Program, TaskRef
from openrknn.npu.task import Chained, Convolution, Flying, Pooling, Step
from openrknn.task import ppu
from openrknn.task.formats import element_bytes
from openrknn.trace.archive import Trace
from openrknn.trace.records import BufferState, FinishRecord, SubmitRecord
from openrknn.trace.roles import buffer_roles
from openrknn.uapi import rknpu, rocket


@dataclass(frozen=True, slots=True)
class Difference:
    """The first byte of a buffer that is not as recorded."""

    serial: int
    role: str
    offset: int
    recorded: int
    replayed: int
    bytes_that_differ: int
    task: int | None
    """The last task that wrote there."""
    register: str = ""
    """The register that holds the address of that output."""
    element: int = 0
    """Which element of what it wrote."""


@dataclass
class LoadedJob:
    """A job of a trace in the memory of a software NPU."""

    submit: SubmitRecord
    memory: Memory
    arrays: dict[int, np.ndarray] = field(repr=False)
    program: Program = field(repr=False)
    roles: dict[int, str]


class Replayer:
    """Loads the jobs of one trace, in order: registers and tables outlive jobs."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._chip = chip_named(trace.chip)
        self._memory = Memory()
        self._machine = Machine(self._chip, self._memory)
        self._followers = frozenset(_followers(trace))
        self._last: LoadedJob | None = None
        self._has_run = False

    def load(self, submit: SubmitRecord) -> LoadedJob:
        """Put a job's memory in place and decode its tasks."""
        before = self._left_by_last() if submit.job in self._followers else {}
        for buffer in list(self._memory):
            self._memory.remove(buffer)
        arrays = {}
        # Where the tasks of the job see them.
        based = tuple(replace(state, address=_address(submit, state)) for state in submit.buffers)
        for state in based:
            recorded = np.frombuffer(self._trace.contents(state), np.uint8)
            arrays[state.serial] = before.get(state.serial, recorded).copy()
            self._memory.add(Buffer(state.address, arrays[state.serial], f"buffer {state.serial}"))
        lists = [list(task_references(submit, core)) for core in sorted(submit.lists)]
        program = self._machine.prepare(lists)
        commands = [task.address for tasks in lists for task in tasks]
        roles = buffer_roles(based, program.steps, commands, _task_buffer(submit, arrays))
        self._last, self._has_run = LoadedJob(submit, self._memory, arrays, program, roles), False
        return self._last

    def run(self, job: LoadedJob, finish: FinishRecord | None) -> list[Difference]:
        """Execute the job; where its memory differs from the record."""
        job.program.run()
        self._has_run = self._has_run or job is self._last
        if finish is None or self._is_followed(job.submit):
            return []
        return list(self._differences(job, finish))

    def _left_by_last(self) -> dict[int, np.ndarray]:
        if self._last is not None and not self._has_run:
            self._last.program.run()
        return {} if self._last is None else self._last.arrays

    def _is_followed(self, submit: SubmitRecord) -> bool:
        """Whether its end was not seen: the memory that was recorded after it is that after its followers."""
        later = [other.job for other, _ in self._trace.jobs() if other.file == submit.file and other.job > submit.job]
        return bool(later) and later[0] in self._followers

    def _differences(self, job: LoadedJob, finish: FinishRecord) -> Iterator[Difference]:
        for state in finish.buffers:
            if state.serial not in job.arrays or job.roles[state.serial] == "tasks":
                continue  # the kernel writes the status of tasks
            recorded = np.frombuffer(self._trace.contents(state), np.uint8)
            replayed = job.arrays[state.serial]
            wrong = np.nonzero(recorded != replayed)[0] if recorded.size == replayed.size else np.array([0])
            if wrong.size:
                first = int(wrong[0])
                step, register, element = _writer(job.program.steps, _address(job.submit, state) + first)
                yield Difference(
                    serial=state.serial,
                    role=job.roles[state.serial],
                    offset=first,
                    recorded=int(recorded[first]),
                    replayed=int(replayed[first]),
                    bytes_that_differ=int(wrong.size),
                    task=step,
                    register=register,
                    element=element,
                )


def _address(submit: SubmitRecord, state: BufferState) -> int:
    """Where the commands of a job see a buffer."""
    return counted_from(submit.base, state.address, state.size)


def _followers(trace: Trace) -> Iterator[int]:
    """Jobs that were submitted before the one before them had ended (rocket: the jobs of a file run in order).

    A recorder outside the kernel sees memory before the first and after the last job of a SUBMIT, never in between.
    """
    running: dict[int, set[int]] = {}
    files = {}
    for event in trace.events:
        if isinstance(event, SubmitRecord) and event.kind == "rocket":
            files[event.job] = event.file
            if running.setdefault(event.file, set()):
                yield event.job
            running[event.file].add(event.job)
        elif isinstance(event, FinishRecord) and event.job in files:
            running[files[event.job]].discard(event.job)


def task_references(submit: SubmitRecord, core: int) -> Iterator[TaskRef]:
    """The tasks of one core, at addresses that count from the base of the job, as those in commands do."""
    first, text = submit.lists[core]
    raw = bytes.fromhex(text)
    if submit.kind == "rocket":
        for number in range(len(raw) // rocket.TASK.size):
            task = rocket.TASK.unpack(raw, number * rocket.TASK.size)
            yield TaskRef(first + number, task["regcmd"], max(task["regcmd_count"] - TAIL_WORDS, 0), first + number)
        return
    for number in range(len(raw) // rknpu.TASK.size):
        task = rknpu.TASK.unpack(raw, number * rknpu.TASK.size)
        address = counted_from(submit.base, task["regcmd_addr"])
        yield TaskRef(first + number, address, task["regcfg_amount"], task["op_idx"])


def _task_buffer(submit: SubmitRecord, arrays: dict[int, np.ndarray]) -> int | None:
    """The buffer that holds the task descriptors, found by its contents."""
    needles = [bytes.fromhex(raw) for _, raw in submit.lists.values() if raw]
    if not needles or submit.kind == "rocket":
        return None
    holders = (state for state in _smallest_first(submit.buffers) if needles[0] in arrays[state.serial].tobytes())
    return next((state.serial for state in holders), None)


def _smallest_first(states: tuple[BufferState, ...]) -> list[BufferState]:
    return sorted(states, key=lambda state: state.size)


def _writer(steps: list[Step], address: int) -> tuple[int | None, str, int]:
    """The last task that wrote to an address, the register that sent it there, and the element of its output."""
    for step in reversed(steps):
        for start, size in step.writes():
            if start <= address < start + size:
                register, bytes_each = _output(step)
                return step.task, register, (address - start) // bytes_each
    return None, "", 0


def _output(step: Step) -> tuple[str, int]:
    match step:
        case Chained() | Convolution(pooling=ppu.Config()):
            assert step.pooling is not None
            return "PPU.DST_BASE_ADDR", element_bytes(step.pooling.precision)
        case Convolution() | Flying():
            return "DPU.DST_BASE_ADDR", element_bytes(step.dpu.out.precision)
        case Pooling():
            return "PPU.DST_BASE_ADDR", element_bytes(step.config.precision)
    return "", 1
