"""The mainline kernel's driver `rocket`: `.rknn` models without the vendor's driver and without its library.

rocket runs one task after the other, each as a run of its own, and waits for the DPU alone. A task that ends in the PPU
(pooling) would time out, so those are executed by the software NPU on the same memory, and `software_tasks` says which.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from types import TracebackType

from openrknn.chips import Chip
from openrknn.container.parts import Task
from openrknn.device.kernel import Kernel, SystemKernel, open_driver
from openrknn.device.protocol import Bytes, DeviceBuffer, Job
from openrknn.errors import DeviceError, UnsupportedError
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.npu.step import Step
from openrknn.uapi import drm, rocket

__all__ = ["RocketBuffer", "RocketDevice"]

_PAGE = 4096
_FOLDERS = ("/dev/accel",)
_ADDRESS_LIMIT = 1 << 32
_WAIT_NS = 300_000_000_000
"""The driver itself ends jobs that hang, after half a second; an emulated one may be slow."""
_TAIL_WORDS = 4
_FAMILY = "rk3588"


@dataclass(frozen=True, slots=True, eq=False)
class RocketBuffer:
    """A buffer object, mapped."""

    name: str
    address: int
    array: Bytes
    handle: int
    mapped: Buffer


class RocketDevice:
    """An NPU behind `rocket`."""

    def __init__(self, chip: Chip, path: str = "", *, kernel: Kernel | None = None) -> None:
        if chip.family != _FAMILY:
            raise UnsupportedError(f"the rocket driver serves RK3588; the model is for {chip.title}")
        self._driver = open_driver(rocket.DRIVER_NAME, _FOLDERS, kernel or SystemKernel(), path)
        self._chip = chip
        self._buffers: list[RocketBuffer] = []
        self._memory = Memory()
        self._machine = Machine(chip, self._memory)
        self.software_tasks = 0
        """Tasks that the software NPU executed because the driver cannot finish them."""

    @property
    def name(self) -> str:
        return f"rocket:{self._driver.path}"

    @property
    def chip(self) -> Chip:
        return self._chip

    @property
    def cores(self) -> int:
        """One list of tasks at a time; the driver itself spreads jobs over the cores."""
        return 1

    def allocate(self, size_bytes: int, name: str) -> RocketBuffer:
        """Memory in whole pages, mapped."""
        if size_bytes < 1:
            raise ValueError(f"buffer {name!r} cannot have {size_bytes} bytes")
        pages = -(-size_bytes // _PAGE) * _PAGE
        made = self._driver.call(rocket.CREATE_BO, {"size": pages})
        if made["dma_address"] + pages > _ADDRESS_LIMIT:
            raise DeviceError(f"{self.name} put {name!r} beyond the NPU's 32-bit addresses")
        array = self._driver.map(pages, made["offset"])
        mapped = self._memory.add(Buffer(made["dma_address"], array, name))
        buffer = RocketBuffer(name, made["dma_address"], array, made["handle"], mapped)
        self._buffers.append(buffer)
        return buffer

    def free(self, buffer: DeviceBuffer) -> None:
        """Give memory back."""
        if isinstance(buffer, RocketBuffer) and buffer in self._buffers:
            self._buffers.remove(buffer)
            self._memory.remove(buffer.mapped)
            self._driver.call(drm.GEM_CLOSE, {"handle": buffer.handle})

    def prepare(self, job: Job) -> _PreparedJob:
        """Tell apart what the driver can finish and what it cannot."""
        if len(job.lists) != 1:
            raise UnsupportedError("rocket runs one list of tasks; open the session with cores=1")
        tasks = [job.tasks[number] for number in job.lists[0]]
        references = [
            TaskRef(number, task.address, task.amount, task.op_index)
            for number, task in zip(job.lists[0], tasks, strict=True)
        ]
        steps = {step.task: step for step in self._machine.prepare([references]).steps}
        chosen = [
            (task, steps[number]) for number, task in zip(job.lists[0], tasks, strict=True) if number in steps
        ]
        return _PreparedJob(self, chosen)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Run tasks on the NPU and wait for them."""
        words = (ctypes.c_uint32 * (2 * len(tasks)))()
        for number, task in enumerate(tasks):
            words[2 * number], words[2 * number + 1] = task.address, task.amount + _TAIL_WORDS
        handles = (ctypes.c_uint32 * len(self._buffers))(*(buffer.handle for buffer in self._buffers))
        for buffer in self._buffers:
            self._driver.call(rocket.FINI_BO, {"handle": buffer.handle})
        entry = rocket.JOB.pack(
            {
                "tasks": ctypes.addressof(words),
                "task_count": len(tasks),
                "task_struct_size": rocket.TASK.size,
                "in_bo_handles": ctypes.addressof(handles),
                "in_bo_handle_count": len(handles),
                "out_bo_handles": ctypes.addressof(handles),
                "out_bo_handle_count": len(handles),
            }
        )
        jobs = ctypes.create_string_buffer(entry, len(entry))
        request = {"jobs": ctypes.addressof(jobs), "job_count": 1, "job_struct_size": rocket.JOB.size}
        self._driver.call(rocket.SUBMIT, request)
        deadline = time.monotonic_ns() + _WAIT_NS
        for buffer in self._buffers:
            self._driver.call(rocket.PREP_BO, {"handle": buffer.handle, "timeout_ns": deadline})

    def close(self) -> None:
        """Give everything back."""
        for buffer in list(self._buffers):
            self.free(buffer)
        self._driver.close()

    def __enter__(self) -> RocketDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.name}>"


class _PreparedJob:
    """Runs of tasks that the driver can finish, and single steps for the software NPU in between."""

    def __init__(self, device: RocketDevice, tasks: Sequence[tuple[Task, Step]]) -> None:
        self._device = device
        self._runs = [
            (on_npu, [task for task, _ in members], [step for _, step in members])
            for on_npu, members in (
                (on_npu, list(group))
                for on_npu, group in groupby(tasks, key=lambda entry: entry[0].int_mask == rocket.INTERRUPT_MASK)
            )
        ]

    def run(self) -> None:
        for on_npu, tasks, steps in self._runs:
            if on_npu:
                self._device.submit(tasks)
            else:
                for step in steps:
                    step.run()
                self._device.software_tasks += len(steps)
