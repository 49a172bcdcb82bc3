"""SUBMIT of the vendor's driver: which tasks on which cores, waiting, and what comes back.

On chips with several cores the tasks are those of `subcore`: one or two cores use their own entry of the first two
or three, three cores use entries 2 to 4. The plain range counts on chips with one core, and its number must never
be 0.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from openrknn.fakekernel.fences import Fence, wait_for_descriptor
from openrknn.fakekernel.file import Job, OpenFile
from openrknn.fakekernel.gem import Buffer, Space
from openrknn.fakekernel.log import LOG
from openrknn.fakekernel.outcome import Outcome
from openrknn.fakekernel.system import System
from openrknn.fakekernel.wire import Call
from openrknn.uapi import rknpu
from openrknn.uapi.rknpu import JobFlag, MemoryFlag

__all__ = ["SubmitMixin", "base_of", "cores_of", "range_of"]

_PAIRS = (0x3, 0xC, 0x30, 0xC0, 0x300, 0xC00)
_MASKS = {1: (0,), 2: (1,), 4: (2,), 3: (0, 1), 7: (0, 1, 2)}
"""The core masks that the driver starts."""

_BASE_BITS = 0xFFFF_FFF0
"""Of PC.TASK_DMA_BASE_ADDR."""

def cores_of(mask: int) -> tuple[int, ...] | None:
    """The cores of a mask; None for a mask that the driver accepts and then never starts."""
    return _MASKS.get(mask)


def base_of(values: Mapping[str, int]) -> int:
    """What the NPU adds to every address in the job's commands: PC.TASK_DMA_BASE_ADDR."""
    return values.get("task_base_addr", 0) & _BASE_BITS


def range_of(values: Mapping[str, int], core: int, used: int, cores: int) -> tuple[int, int]:
    """First task and number of tasks of one core, when a job uses `used` of the chip's `cores`."""
    if cores == 1:
        return values["task_start"], values["task_number"]
    entry = core + 2 if used == 3 else core
    return values[f"subcore{2 * entry}"], values[f"subcore{2 * entry + 1}"]


class SubmitMixin:
    """The part of the driver that runs jobs."""

    system: System
    if TYPE_CHECKING:

        def switch(self, number: int) -> Space: ...
        def object_at(self, address: int) -> Buffer: ...

    def submit(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        """Queue a job and, unless the program does not want to, wait for it."""
        job, tasks = self._job(file, values)
        flags = values["flags"]
        if flags & JobFlag.FENCE_IN:
            self._wait_for_fence(call, values)
        fence = self._fence_out(call, job) if flags & JobFlag.FENCE_OUT else None
        self.system.buffers.keep(tasks)
        waits = not flags & JobFlag.NONBLOCK
        job.on_done.append(lambda done, outcome: self._after(done, outcome, tasks, fence, reports=waits))
        self.system.submit(job)
        if not waits:
            return
        job.done.wait()
        outcome = job.outcome
        assert outcome is not None
        if _error(job, outcome):
            values["task_counter"] = outcome.tasks
            raise OSError(_error(job, outcome), outcome.error)
        values["task_counter"] = values["task_number"]
        values["hw_elapse_time"] = outcome.nanoseconds

    def _job(self, file: OpenFile, values: dict[str, int]) -> tuple[Job, Buffer]:
        """The job, and the buffer with its tasks."""
        if not values["task_number"]:
            raise OSError(errno.EINVAL, "a job without tasks")
        if values["core_mask"] > (1 << self.system.chip.cores) - 1:
            raise OSError(errno.EINVAL, f"core mask {values['core_mask']:#x}")
        if not values["flags"] & JobFlag.PC:
            raise OSError(errno.EINVAL, "only jobs that the NPU fetches itself")
        tasks = self.object_at(values["task_obj_addr"])
        if not tasks.flags & MemoryFlag.KERNEL_MAPPING:
            raise OSError(errno.EINVAL, "the buffer with the tasks has no kernel mapping")
        mask = values["core_mask"] or 1 << self.system.scheduler.idlest_core()
        cores = cores_of(mask)
        if cores is None:
            raise OSError(errno.EINVAL, f"no job starts with the core mask {mask:#x}")
        lists = {core: self._range(values, core, len(cores), tasks) for core in cores}
        count = sum(len(raw) for _, raw in lists.values()) // rknpu.TASK.size
        space, base = self.switch(values["iommu_domain_id"]), base_of(values)
        return Job(file, space, rknpu.DRIVER_NAME, lists, count, values["timeout"] / 1000, base), tasks

    def _range(self, values: dict[str, int], core: int, used: int, tasks: Buffer) -> tuple[int, bytes]:
        """First task and descriptors of a core."""
        start, number = range_of(values, core, used, self.system.chip.cores)
        size = rknpu.TASK.size
        if not number or (start + number) * size > tasks.size:
            # With no tasks at all the NPU never reports, and beyond the buffer are no tasks.
            raise OSError(errno.ETIMEDOUT, f"core {core} has tasks {start} to {start + number}")
        return start, tasks.read(start * size, number * size)

    def _wait_for_fence(self, call: Call, values: dict[str, int]) -> None:
        if call.descriptor < 0 or self._is_no_fence(call.descriptor):
            raise OSError(errno.EINVAL, "no fence")
        if not wait_for_descriptor(call.descriptor, values["timeout"] / 1000):
            raise OSError(errno.ETIMEDOUT, "the fence was not signalled")
        values["fence_fd"] = -1

    def _is_no_fence(self, descriptor: int) -> bool:
        """Files in memory, and nodes of this device. Fences of others may be anything."""
        status = os.fstat(descriptor)
        return stat.S_ISREG(status.st_mode) or any(file.key == status.st_ino for file in self.system.open_files())

    def _fence_out(self, call: Call, job: Job) -> Fence:
        fence = Fence("rknpu", "rknpu")
        call.fence, call.close_on_exec = fence, True
        return fence

    def _after(
        self, job: Job, outcome: Outcome, tasks: Buffer, fence: Fence | None, *, reports: bool
    ) -> None:
        """Write the interrupt status back, as the driver does after its wait: that of the core on which it waits, into
        the last task of the core that it started last."""
        if reports:
            first, raw = job.lists[max(job.lists)]
            last = first + len(raw) // rknpu.TASK.size - 1
            core = min(job.lists)
            status = outcome.status.get(core, 0) & _mask_of(job, core)
            place = last * rknpu.TASK.size + rknpu.TASK.offsets["int_status"]
            tasks.write(place, status.to_bytes(4, "little"))
        self.system.buffers.release(tasks)
        code = _error(job, outcome)
        if fence is not None:
            fence.signal(-code if code else 1)


def _mask_of(job: Job, core: int) -> int:
    """The interrupts that a core may raise: a field of its last task."""
    _, raw = job.lists[core]
    return rknpu.TASK.unpack(raw, len(raw) - rknpu.TASK.size)["int_mask"]


def _error(job: Job, outcome: Outcome) -> int:
    """0, or what the driver returns. A fault or a stuck job shows as a timeout: no interrupt ever comes."""
    if outcome.problem == "cancelled":
        return errno.ENODEV
    if outcome.problem:
        return errno.ETIMEDOUT
    for core in job.lists:
        mask = _mask_of(job, core)
        status = outcome.status[core] & mask
        if not mask or sum(pair for pair in _PAIRS if status & pair) != mask:  # without a mask, no interrupt
            LOG.warning("job %d: invalid irq status: %#x, require mask: %#x", job.number, outcome.status[core], mask)
            return errno.ETIMEDOUT
    return 0
