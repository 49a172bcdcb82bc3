"""The mainline kernel's driver `rocket`: `.rknn` models without the vendor's driver and without its library.

rocket runs one task after the other, each as a run of its own, and waits for the DPU alone. A task that ends in the PPU
(pooling) would time out, so those are executed by the software NPU on the same memory, and `software_tasks` says which.

Three rules of the driver that it does not report when they are broken (drivers/accel/rocket of the mainline kernel):

- a buffer that is in the lists of a job twice, or in both, makes it drop the job: SUBMIT and PREP_BO return 0. So a
  buffer is either an input (constants) or an output;
- a job has 500 ms for all of its tasks. Afterwards the core is reset, and PREP_BO returns 0. So tasks are split into
  jobs by their estimated time at the clock of the mainline device tree, with a margin;
- both leave the outputs as they were. So `Proof` looks whether a job ran. A time-out cannot come before its 500 ms,
  so that a job that took less and began has ended; one that took longer, alone or behind jobs of other programs, has
  to have written its last result. Where that would leave no evidence, `rocket_repeats` adds some.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import NamedTuple

from openrknn.chips import Chip
from openrknn.container.parts import Task
from openrknn.device.base import BaseDevice, Work
from openrknn.device.kernel import Kernel, SystemKernel, open_driver
from openrknn.device.memory import SharedMemory
from openrknn.device.proof import Proof
from openrknn.device.protocol import Bytes, DeviceBuffer, Job
from openrknn.device.rocket_jobs import LIMIT_SECONDS, Entry, RocketJob, entries_of, jobs_of
from openrknn.device.rocket_repeats import are_the_same, repeats_of
from openrknn.errors import DeviceError, UnsupportedError
from openrknn.isa.words import TAIL_WORDS
from openrknn.npu import Buffer, Machine, TaskRef
from openrknn.npu.task import Step
from openrknn.uapi import drm, emulated, rocket

__all__ = ["RocketBuffer", "RocketDevice"]

_FOLDERS = ("/dev/accel",)
_ADDRESS_LIMIT = 1 << 32
_WAIT_NS = 300_000_000_000
"""The driver itself ends jobs that hang, after half a second; an emulated one may be slow."""
_FAMILY = "rk3588"


@dataclass(frozen=True, slots=True, eq=False)
class RocketBuffer:
    """A buffer object, mapped."""

    name: str
    address: int
    array: Bytes
    handle: int
    mapped: Buffer


class _Job(NamedTuple):
    """What one SUBMIT runs, and how it is checked."""

    tasks: list[Task]
    proof: Proof
    scratch: tuple[RocketBuffer, ...] = ()


class RocketDevice(BaseDevice[RocketBuffer]):
    """An NPU behind `rocket`."""

    def __init__(self, chip: Chip, path: str = "", *, kernel: Kernel | None = None) -> None:
        super().__init__(chip)
        if chip.family != _FAMILY:
            raise UnsupportedError(f"the rocket driver serves RK3588; the model is for {chip.title}")
        self._driver = open_driver(rocket.DRIVER_NAME, _FOLDERS, kernel or SystemKernel(), path)
        self._memory = SharedMemory()
        self._machine = Machine(chip, self._memory)
        self._limit_seconds = LIMIT_SECONDS * emulated.time_scale()
        self.software_tasks = 0
        """Tasks that the software NPU executed because the driver cannot finish them."""

    @property
    def name(self) -> str:
        return f"rocket:{self._driver.path}"

    @property
    def cores(self) -> int:
        """One list of tasks at a time; the driver itself spreads jobs over the cores."""
        return 1

    def export(self, buffer: RocketBuffer) -> int:
        """The memory as a dma-buf for another process."""
        return self._driver.export(buffer.handle)

    def _allocate(self, size_bytes: int, name: str) -> RocketBuffer:
        made = self._driver.call(rocket.CREATE_BO, {"size": size_bytes})
        handle, address = made["handle"], made["dma_address"]
        try:
            if address + size_bytes > _ADDRESS_LIMIT:
                raise DeviceError(f"{self.name} put {name!r} at {address:#x}, beyond the NPU's 32-bit addresses")
            array = self._driver.map(size_bytes, made["offset"])
        except BaseException:
            self._driver.call(drm.GEM_CLOSE, {"handle": handle})
            raise
        return RocketBuffer(name, address, array, handle, self._memory.add(Buffer(address, array, name)))

    def _release(self, buffer: RocketBuffer) -> None:
        self._memory.remove(buffer.mapped)
        self._driver.call(drm.GEM_CLOSE, {"handle": buffer.handle})

    def _prepare(self, job: Job) -> Work[RocketBuffer]:
        """Tell apart what the driver can finish and what it cannot."""
        if len(job.lists) != 1:
            raise UnsupportedError("rocket runs one list of tasks; open the session with cores=1")
        tasks = [(number, job.tasks[number]) for number in job.lists[0]]
        references = [TaskRef(number, task.address, task.amount, task.op_index) for number, task in tasks]
        steps = {step.task: step for step in self._machine.prepare([references]).steps}
        chosen = [(task, steps[number]) for number, task in tasks if number in steps]
        runs: list[_Job | list[Step]] = []
        scratch: list[RocketBuffer] = []
        with ExitStack() as undo:
            for on_npu, members in groupby(entries_of(chosen, self._memory, self.chip), key=_ends_in_dpu):
                entries = list(members)
                if not on_npu:
                    runs.append([entry.step for entry in entries])
                    continue
                for made in map(self._provable, jobs_of(entries, self._memory)):
                    runs.append(made)
                    scratch += made.scratch
                    for buffer in made.scratch:
                        undo.callback(self._release, buffer)
            undo.pop_all()
        return Work(partial(self._run, runs, frozenset(job.constants)), tuple(scratch))

    def _provable(self, job: RocketJob) -> _Job:
        """With its last task again where the job would leave no evidence of its end, and the time suffices."""
        repeats = None if job.proof.is_sure_of_last else repeats_of(job.last.task, job.last.step, self._memory)
        if repeats is None or repeats.times * job.last.seconds > job.spare_seconds:
            return _Job(job.tasks, job.proof)
        buffer = self._allocate(repeats.times * repeats.size_bytes, "evidence")
        more, marks = repeats.put(buffer.address, self._memory)
        tasks = [*job.tasks, *more]
        if not are_the_same(tasks, len(more), self.chip, self._memory):
            self._release(buffer)
            return _Job(job.tasks, job.proof)
        return _Job(tasks, job.proof.with_last(marks, repeats.original(self._memory)), (buffer,))

    def _shut_down(self) -> None:
        self._driver.close()

    def _run(
        self,
        runs: Sequence[_Job | list[Step]],
        constants: frozenset[DeviceBuffer],
        buffers: Sequence[RocketBuffer],
    ) -> None:
        """Jobs of the driver, and between them what the software NPU does on the same memory."""
        read = [buffer for buffer in buffers if buffer in constants]
        written = [buffer for buffer in buffers if buffer not in constants]
        for run in runs:
            if isinstance(run, _Job):
                self._submit_checked(run, read, [*written, *run.scratch])
                continue
            for step in run:
                step.run()
            with self._lock:
                self.software_tasks += len(run)

    def _submit_checked(self, job: _Job, read: Sequence[RocketBuffer], written: Sequence[RocketBuffer]) -> None:
        """Run a job and make sure that it ran."""
        proof, tasks = job.proof, len(job.tasks)
        # A result of one or two bytes can equal its mark by accident: it cannot do so twice.
        for _ in range(1 if proof.is_sure or tasks > 1 else 2):
            proof.set()
            seconds = self._submit(job.tasks, read, written)
            if proof.began or not proof.can_tell or seconds >= self._limit_seconds:
                break
        else:
            raise DeviceError(
                f"{self.name} dropped a job of {tasks} tasks: SUBMIT and PREP_BO reported success, but no task wrote "
                "its result. The kernel log (dmesg) may say why",
                call=rocket.SUBMIT.name,
            )
        if seconds >= self._limit_seconds and not proof.ended:
            raise DeviceError(
                f"{self.name} took {seconds:.2f} s for a job of {tasks} tasks, and there is no evidence that it ended: "
                f"the driver stops jobs after {self._limit_seconds:g} s and reports success. The kernel log (dmesg) "
                "says \"NPU job timed out\" if it did; device='software' runs the model without the NPU",
                call=rocket.PREP_BO.name,
            )
        if not proof.is_whole:
            raise DeviceError(
                f"{self.name} ran a job of {tasks} tasks and reported success, but the last one did not write its "
                "result. The kernel log (dmesg) may say why",
                call=rocket.PREP_BO.name,
            )

    def _submit(self, tasks: Sequence[Task], read: Sequence[RocketBuffer], written: Sequence[RocketBuffer]) -> float:
        """Run tasks on the NPU and wait for them; seconds. Jobs that only read a buffer do not wait for each other."""
        words = (ctypes.c_uint32 * (2 * len(tasks)))()
        for number, task in enumerate(tasks):
            words[2 * number], words[2 * number + 1] = task.address, task.amount + TAIL_WORDS
        inputs = (ctypes.c_uint32 * len(read))(*(buffer.handle for buffer in read))
        outputs = (ctypes.c_uint32 * len(written))(*(buffer.handle for buffer in written))
        for buffer in (*read, *written):
            self._driver.call(rocket.FINI_BO, {"handle": buffer.handle})
        entry = rocket.JOB.pack(
            {
                "tasks": ctypes.addressof(words),
                "task_count": len(tasks),
                "task_struct_size": rocket.TASK.size,
                "in_bo_handles": ctypes.addressof(inputs),
                "in_bo_handle_count": len(inputs),
                "out_bo_handles": ctypes.addressof(outputs),
                "out_bo_handle_count": len(outputs),
            }
        )
        jobs = ctypes.create_string_buffer(entry, len(entry))
        request = {"jobs": ctypes.addressof(jobs), "job_count": 1, "job_struct_size": rocket.JOB.size}
        begun = time.monotonic_ns()
        self._driver.call(rocket.SUBMIT, request)
        deadline = begun + _WAIT_NS
        for buffer in written:
            self._driver.call(rocket.PREP_BO, {"handle": buffer.handle, "timeout_ns": deadline})
        return (time.monotonic_ns() - begun) / 1e9


def _ends_in_dpu(entry: Entry) -> bool:
    """Whether the driver can finish the task."""
    return entry.task.int_mask == rocket.INTERRUPT_MASK
