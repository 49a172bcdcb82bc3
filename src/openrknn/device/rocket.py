"""The mainline kernel's driver `rocket`: `.rknn` models without the vendor's driver and without its library.

rocket runs one task after the other, each as a run of its own, and waits for the DPU alone. A task that ends in the PPU
(pooling) would time out, so those are executed by the software NPU on the same memory, and `software_tasks` says which.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import NamedTuple

from openrknn.chips import Chip
from openrknn.container.parts import Task
from openrknn.device.base import BaseDevice, Work
from openrknn.device.kernel import Kernel, SystemKernel, open_driver
from openrknn.device.memory import SharedMemory
from openrknn.device.protocol import Bytes, DeviceBuffer, Job
from openrknn.errors import DeviceError, UnsupportedError
from openrknn.isa.words import TAIL_WORDS
from openrknn.npu import Buffer, Machine, TaskRef
from openrknn.npu.task import Step
from openrknn.uapi import drm, rocket

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


class RocketDevice(BaseDevice[RocketBuffer]):
    """An NPU behind `rocket`."""

    def __init__(self, chip: Chip, path: str = "", *, kernel: Kernel | None = None) -> None:
        super().__init__(chip)
        if chip.family != _FAMILY:
            raise UnsupportedError(f"the rocket driver serves RK3588; the model is for {chip.title}")
        self._driver = open_driver(rocket.DRIVER_NAME, _FOLDERS, kernel or SystemKernel(), path)
        self._memory = SharedMemory()
        self._machine = Machine(chip, self._memory)
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
        return Work(partial(self._run, _runs(chosen), frozenset(job.constants)))

    def _shut_down(self) -> None:
        self._driver.close()

    def _run(self, runs: Sequence[_Run], constants: frozenset[DeviceBuffer], buffers: Sequence[RocketBuffer]) -> None:
        written = [buffer for buffer in buffers if buffer not in constants]
        for run in runs:
            if run.on_npu:
                self._submit(run.tasks, buffers, written)
                continue
            for step in run.steps:
                step.run()
            with self._lock:
                self.software_tasks += len(run.steps)

    def _submit(self, tasks: Sequence[Task], buffers: Sequence[RocketBuffer], written: Sequence[RocketBuffer]) -> None:
        """Run tasks on the NPU and wait for them. Jobs that only read a buffer do not wait for each other."""
        words = (ctypes.c_uint32 * (2 * len(tasks)))()
        for number, task in enumerate(tasks):
            words[2 * number], words[2 * number + 1] = task.address, task.amount + TAIL_WORDS
        inputs = (ctypes.c_uint32 * len(buffers))(*(buffer.handle for buffer in buffers))
        outputs = (ctypes.c_uint32 * len(written))(*(buffer.handle for buffer in written))
        for buffer in buffers:
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
        self._driver.call(rocket.SUBMIT, request)
        deadline = time.monotonic_ns() + _WAIT_NS
        for buffer in written:
            self._driver.call(rocket.PREP_BO, {"handle": buffer.handle, "timeout_ns": deadline})


class _Run(NamedTuple):
    """Consecutive tasks that the same side executes: the driver, or the software NPU on the same memory."""

    on_npu: bool
    tasks: list[Task]
    steps: list[Step]


def _runs(tasks: Sequence[tuple[Task, Step]]) -> list[_Run]:
    """The driver can finish a task whose last block is the DPU."""
    groups = groupby(tasks, key=lambda entry: entry[0].int_mask == rocket.INTERRUPT_MASK)
    return [
        _Run(on_npu, [task for task, _ in members], [step for _, step in members])
        for on_npu, members in ((on_npu, list(group)) for on_npu, group in groups)
    ]
