"""The vendor's kernel driver `rknpu`, without the vendor's library.

Most chips have it as a DRM device. RV1103 and RV1106 have the character device /dev/rknpu, where a handle is the
descriptor of a dma-buf, and memory must be contiguous because there is no IOMMU.

The driver reports success for a job whose results did not reach memory if the NPU reports its end. So the last task of
each core that can have a mark (`proof`) has to overwrite it.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from openrknn.chips import Chip
from openrknn.container.parts import TASK, Task
from openrknn.device.base import PAGE, BaseDevice, Work
from openrknn.device.kernel import Driver, Kernel, SystemKernel, open_driver
from openrknn.device.protocol import Bytes, Job
from openrknn.errors import DeviceError, RknnError, UnsupportedError
from openrknn.uapi import drm, rknpu
from openrknn.uapi.rknpu import LAST_DOMAIN, Action, JobFlag, MemoryFlag, SyncFlag

if TYPE_CHECKING:
    from openrknn.device.proof import Mark

__all__ = ["RknpuBuffer", "RknpuDevice"]

_FOLDERS = ("/dev/dri",)
_MISC = "/dev/rknpu"
_TIMEOUT_MS = 6000
_ADDRESS_LIMIT = 1 << 32
_PLAIN = MemoryFlag.NON_CONTIGUOUS | MemoryFlag.CACHEABLE | MemoryFlag.ZEROING
_TASKS = _PLAIN | MemoryFlag.KERNEL_MAPPING
_MOST_TASKS = 1000
"""Of a job with marks: decoding takes half a millisecond a task, once."""
_TWO_CORES, _THREE_CORES = 2, 3
_WITH_DOMAINS = rknpu.version_code((0, 9, 0))
"""Older drivers take another field for the number of the domain."""


@dataclass(frozen=True, slots=True, eq=False)
class RknpuBuffer:
    """A GEM object, mapped."""

    name: str
    address: int
    array: Bytes
    handle: int
    object_address: int
    is_foreign: bool = False
    """An imported dma-buf: its owner flushes the caches after writing with the CPU."""


class RknpuDevice(BaseDevice[RknpuBuffer]):
    """An NPU behind `rknpu`. The caches of a job's buffers are made consistent before and after it."""

    def __init__(
        self, chip: Chip, path: str = "", *, kernel: Kernel | None = None, core_mask: int = 0, domain: int = 0
    ) -> None:
        """`core_mask` names the cores that this process may use; 0 is all of them.

        `domain`: the IOMMU domain of all memory and jobs of this device, 0 to 15, each with addresses of 32 bits of its
        own. A job sees the memory of its domain only.
        """
        super().__init__(chip)
        if not 0 <= domain <= LAST_DOMAIN:
            raise ValueError(f"there is no IOMMU domain {domain}; the driver has 0 to {LAST_DOMAIN}")
        self._domain = domain
        everything = (1 << chip.cores) - 1
        if not 0 <= core_mask <= everything:
            raise ValueError(f"core mask {core_mask:#x} names cores that {chip.title} does not have")
        self._core_mask = core_mask or everything
        self._kernel = kernel or SystemKernel()
        self._is_misc = _MISC in ((path,) if path else chip.driver_nodes)
        if self._is_misc:
            self._driver = Driver(self._kernel, path or _MISC)
        else:
            self._driver = open_driver(rknpu.DRIVER_NAME, _FOLDERS, self._kernel, path)
        table = rknpu.MISC_IOCTLS if self._is_misc else rknpu.DRM_IOCTLS
        self._foreign: Counter[int] = Counter()
        """How often each imported handle is in use."""
        self._ioctls = {ioctl.name: ioctl for ioctl in table}
        try:
            self._check_version()
            self.driver_version = self._action(Action.GET_DRV_VERSION)
            self._check_domain()
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        return f"rknpu:{self._driver.path}" + (f" (IOMMU domain {self._domain})" if self._domain else "")

    @property
    def cores(self) -> int:
        return self._core_mask.bit_count()

    def export(self, buffer: RknpuBuffer) -> int | None:
        """The memory as a dma-buf for another process; None where the driver is no DRM device."""
        return None if self._is_misc else self._driver.export(buffer.handle)

    def import_dma_buf(self, descriptor: int, offset: int, view: Bytes, name: str) -> RknpuBuffer:
        """A dma-buf of a camera, a decoder or RGA, from `offset` on, seen by the NPU as it is. `view` is its memory."""
        if self._is_misc:
            raise UnsupportedError(f"{self.name} imports no dma-bufs; convert frames into bind().inputs instead")
        return self._own(lambda: self._import(descriptor, offset, view, name))

    def _import(self, descriptor: int, offset: int, view: Bytes, name: str) -> RknpuBuffer:
        handle = self._driver.call(drm.PRIME_FD_TO_HANDLE, {"fd": descriptor})["handle"]
        self._foreign[handle] += 1  # the same buffer has the same handle each time
        try:
            size = -(-(offset + view.nbytes) // PAGE) * PAGE
            known = self._call("MEM_CREATE", {"handle": handle, "size": size})
            address = known["dma_addr"] + offset
            if address + view.nbytes > _ADDRESS_LIMIT:
                raise DeviceError(f"{self.name} put {name!r} at {address:#x}, beyond the NPU's 32-bit addresses")
            return RknpuBuffer(name, address, view, handle, known["obj_addr"], is_foreign=True)
        except BaseException:
            self._forget(handle)
            raise

    def _forget(self, handle: int) -> None:
        self._foreign[handle] -= 1
        if not self._foreign[handle]:
            del self._foreign[handle]
            self._driver.call(drm.GEM_CLOSE, {"handle": handle})

    def _allocate(self, size_bytes: int, name: str) -> RknpuBuffer:
        return self._create(size_bytes, name, _PLAIN)

    def _release(self, buffer: RknpuBuffer) -> None:
        if buffer.is_foreign:
            self._forget(buffer.handle)
            return
        self._destroy(buffer.handle, buffer.object_address)

    def _prepare(self, job: Job) -> Work[RknpuBuffer]:
        """Write the task records where the kernel can read them."""
        marks = self._marks(job)
        records = [job.tasks[number] for numbers in job.lists for number in numbers]
        size = -(-max(len(records) * TASK.size, 1) // PAGE) * PAGE
        tasks = self._create(size, "tasks", _TASKS)
        tasks.array[: len(records) * TASK.size] = np.frombuffer(_packed(records), np.uint8)
        return Work(partial(self._submit, job, tasks, marks), (tasks,))

    def _marks(self, job: Job) -> list[Mark]:
        """None for a job that the software NPU cannot decode, or that it would take too long for."""
        if sum(map(len, job.lists)) > _MOST_TASKS:
            return []
        from openrknn.device.proof import last_marks  # the decoder takes long to import
        from openrknn.npu import Buffer, Machine, Memory, TaskRef

        everything = dict.fromkeys(self._owned if job.buffers is None else (*job.buffers, *job.constants))
        mapped = {buffer: Buffer(buffer.address, buffer.array, buffer.name) for buffer in everything}
        lists = [[TaskRef(n, job.tasks[n].address, job.tasks[n].amount) for n in numbers] for numbers in job.lists]
        try:
            steps = {step.task: step for step in Machine(self._chip, Memory([*mapped.values()])).prepare(lists).steps}
            written = Memory([one for buffer, one in mapped.items() if buffer not in job.constants])
            return last_marks([[steps[n] for n in numbers if n in steps] for numbers in job.lists], written)
        except RknnError:
            return []

    def _submit(self, job: Job, tasks: RknpuBuffer, marks: Sequence[Mark], buffers: Sequence[RknpuBuffer]) -> None:
        """Run a job and wait for it. Constants are not read back: they are never written."""
        for mark in marks:
            mark.set()
        self._sync((*buffers, tasks), SyncFlag.TO_DEVICE)
        submission = _submission(job, tasks, self._chip, self._core_mask)
        self._call("SUBMIT", submission | ({"iommu_domain_id": self._domain} if self._domain else {}))
        self._sync([buffer for buffer in buffers if buffer not in job.constants], SyncFlag.FROM_DEVICE)
        if not all(mark.is_gone for mark in marks):
            raise DeviceError(
                f"{self.name} reported the end of a job of {sum(map(len, job.lists))} tasks, but its last results are "
                "not in memory. The kernel log (dmesg) may say why; device='software' runs the model without the NPU",
                call="SUBMIT",
            )

    def _shut_down(self) -> None:
        self._driver.close()

    def _check_version(self) -> None:
        chip, version = self._chip, self._action(Action.GET_HW_VERSION)
        if chip.hw_version is not None and version != chip.hw_version:
            raise UnsupportedError(
                f"the model is for {chip.title} (hardware version {chip.hw_version:#x}), {self._driver.path} says "
                f"{version:#x}; convert the model for this chip"
            )

    def _check_domain(self) -> None:
        if self._domain and (self._is_misc or self.driver_version < _WITH_DOMAINS):
            raise UnsupportedError(
                f"{self._driver.path} has no IOMMU domains: they need a driver of version 0.9 or newer and a chip with "
                "an IOMMU. All memory has to fit into 4 GB here; use a smaller model"
            )

    def _action(self, action: Action) -> int:
        return self._call("ACTION", {"flags": action})["value"]

    def _call(self, name: str, values: Mapping[str, int]) -> dict[str, int]:
        return self._driver.call(self._ioctls[name], values)

    def _create(self, size_bytes: int, name: str, flags: MemoryFlag) -> RknpuBuffer:
        flags = flags & ~MemoryFlag.NON_CONTIGUOUS if self._is_misc else flags
        wanted: dict[str, int] = {"size": size_bytes, "flags": flags}
        try:
            created = self._call("MEM_CREATE", wanted | ({"iommu_domain_id": self._domain} if self._domain else {}))
        except DeviceError as error:
            raise self._explained(error) from None
        handle, address, kernel_address = created["handle"], created["dma_addr"], created["obj_addr"]
        try:
            if address + size_bytes > _ADDRESS_LIMIT:
                raise DeviceError(f"{self.name} put {name!r} at {address:#x}, beyond the NPU's 32-bit addresses")
            return RknpuBuffer(name, address, self._map(handle, size_bytes), handle, kernel_address)
        except BaseException:
            self._destroy(handle, kernel_address)
            raise

    def _explained(self, error: DeviceError) -> DeviceError:
        """Kernels that were built without domains take every number, and then all memory is in one address space."""
        if error.errno != errno.ENOMEM or not self._domain or self._action(Action.GET_IOMMU_DOMAIN_ID) == self._domain:
            return error
        return DeviceError(
            f"{error}. This kernel takes IOMMU domains and ignores them, so that all memory has to fit into 4 GB; "
            "use a kernel whose rknpu driver has them, or a smaller model",
            errno=error.errno, call=error.call,
        )  # fmt: skip

    def _map(self, handle: int, pages: int) -> Bytes:
        if not self._is_misc:
            return self._driver.map(pages, self._call("MEM_MAP", {"handle": handle})["offset"])
        try:
            return self._kernel.map(handle, pages, 0)
        except OSError as error:
            text = f"{self.name}: mapping {pages} bytes failed: {error.strerror}"
            raise DeviceError(text, errno=error.errno, call="mmap") from None
        finally:
            self._kernel.close(handle)

    def _destroy(self, handle: int, object_address: int) -> None:
        self._call("MEM_DESTROY", {"handle": 0 if self._is_misc else handle, "obj_addr": object_address})

    def _sync(self, buffers: Sequence[RknpuBuffer], flag: SyncFlag) -> None:
        for buffer in buffers:
            if buffer.is_foreign:
                continue
            place = {"obj_addr": buffer.object_address, "offset": 0, "size": buffer.array.nbytes}
            self._call("MEM_SYNC", {"flags": flag, **place})


def _packed(tasks: Sequence[Task]) -> bytes:
    return b"".join(TASK.pack(*task._replace(int_status=0)) for task in tasks)


def _submission(job: Job, tasks: RknpuBuffer, chip: Chip, core_mask: int) -> dict[str, int]:
    """One and two cores use their own ranges, three cores ranges 2 to 4; a chip with one core uses the plain fields."""
    cores = [core for core in range(chip.cores) if core_mask >> core & 1][: len(job.lists)]
    if len(cores) < len(job.lists):
        raise DeviceError(
            f"the job is for {len(job.lists)} cores, and this process may use {len(cores)} (core mask {core_mask:#x}); "
            "ask for fewer cores"
        )
    # An operator that is not shared is a job of the first core; one that has nothing to do would never be done.
    lists = job.lists[: max((number for number, tasks in enumerate(job.lists) if tasks), default=0) + 1]
    cores = cores[: len(lists)]
    if len(cores) == _TWO_CORES and cores != [0, 1]:
        raise DeviceError(f"no job starts on cores {cores[0]} and {cores[1]} together; only 0 and 1 work as a pair")
    total = sum(map(len, job.lists))
    values = {
        "flags": JobFlag.PC | (JobFlag.PINGPONG if job.ping_pong else JobFlag(0)),
        "timeout": _TIMEOUT_MS,
        "task_start": 0,
        "task_number": total,
        "task_obj_addr": tasks.object_address,
        "core_mask": sum(1 << core for core in cores),
        "fence_fd": -1,
    }
    if chip.cores > 1:
        first = 2 if len(lists) == _THREE_CORES else 0
        start = 0
        for core, numbers in zip(cores, lists, strict=True):
            values[f"subcore{2 * (first + core)}"] = start
            values[f"subcore{2 * (first + core) + 1}"] = len(numbers)
            start += len(numbers)
    return values
