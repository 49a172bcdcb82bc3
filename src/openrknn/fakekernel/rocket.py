"""The driver `rocket` of the mainline kernel: CREATE_BO, SUBMIT, PREP_BO, FINI_BO.

Each open file has addresses of its own. SUBMIT returns 0 whatever becomes of single jobs; a job waits for earlier
jobs that write its buffers, and PREP_BO waits for the jobs that write a buffer. A task that does not end in the DPU
raises no interrupt that the driver waits for: the core is reset, the job is dropped, its fence is signalled. So is a
job that takes longer than 500 ms. A job that names a buffer twice, in one list or in both, is dropped: the kernel
locks all of them, and none twice (drm_gem_lock_reservations). PREP_BO returns 0 in each of these cases.
"""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Mapping, Sequence

from openrknn.fakekernel.drm import DrmDriver, Handler, refuse
from openrknn.fakekernel.file import Job, OpenFile
from openrknn.fakekernel.gem import Buffer, Space
from openrknn.fakekernel.log import LOG
from openrknn.fakekernel.wire import Block, Call, Element
from openrknn.uapi import drm, rocket, tables

__all__ = ["Rocket"]


class Rocket(DrmDriver):
    """Behind /dev/accel/accel0."""

    table = tables.ROCKET
    name = rocket.DRIVER_NAME
    version = rocket.VERSION
    description = rocket.DESCRIPTION

    def handlers(self) -> Mapping[int, Handler]:
        return {
            rocket.CREATE_BO.number: self._create_bo,
            rocket.SUBMIT.number: self._submit,
            rocket.PREP_BO.number: self._prep_bo,
            rocket.FINI_BO.number: self._fini_bo,
        }

    def refusal(self, file: OpenFile, kind: int, number: int) -> int:
        """Linux 7.2 on a node for accelerators: requests of displays are known, and each refused for a reason."""
        if kind != ord(drm.MAGIC):
            return errno.ENOTTY
        if number in drm.NEED_MASTER:
            return errno.EACCES  # files of accelerators have no master
        if number in drm.DUMB_BUFFERS:
            return errno.ENOSYS
        return errno.EOPNOTSUPP if number in drm.OF_DISPLAYS else errno.EINVAL

    def open(self, file: OpenFile) -> None:
        """A domain of its own."""
        super().open(file)
        file.space = self.system.new_space(highest_first=False)

    def close(self, file: OpenFile) -> None:
        """The domain goes when its last job is done."""
        super().close(file)
        self.system.drop_space(self._space(file))

    def import_buffer(self, file: OpenFile, descriptor: int) -> Buffer:
        """Only its own buffers come back in, and they keep the address that they have in the domain of their maker."""
        buffer = self.system.buffers.find_inode(os.fstat(descriptor).st_ino)
        if buffer is None:
            raise refuse(errno.EINVAL, "the driver cannot import foreign memory")
        return buffer

    def _space(self, file: OpenFile) -> Space:
        assert file.space is not None
        return file.space

    def _create_bo(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        if not values["size"]:
            raise refuse(errno.ENOSPC, "a buffer of 0 bytes")  # drm_mm has no node of this size
        with self.system.buffers.lock:
            buffer = self.system.buffers.create(values["size"], 0, self._space(file), self.name)
            values["handle"] = self.handles(file).add(buffer)
        values["dma_address"], values["offset"] = buffer.address, buffer.offset

    def _submit(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        if not values["job_count"]:
            return
        if values["job_struct_size"] < rocket.JOB.size:
            raise refuse(errno.EINVAL, "job_struct_size is too small")
        if values["reserved"]:
            raise refuse(errno.EINVAL, "reserved must be 0")
        elements = call.blocks["jobs"].elements
        if len(elements) < values["job_count"]:
            raise refuse(errno.EFAULT, "the jobs cannot be read")
        for element in elements:
            try:
                self._start(file, element)
            except OSError as error:  # the driver drops the job, and the ioctl still returns 0
                LOG.warning("job of process %d dropped: %s", file.process, error.strerror)

    def _start(self, file: OpenFile, element: Element) -> None:
        values, blocks = element
        if not values["task_count"] or values["task_struct_size"] < rocket.TASK.size:
            raise refuse(errno.EINVAL, "no tasks, or task_struct_size is too small")
        raw = _tasks(blocks["tasks"], values["task_count"])
        read, written = (self._handles_in(file, element, name) for name in ("in_bo_handle", "out_bo_handle"))
        if len({id(buffer) for buffer in (*read, *written)}) < len(read) + len(written):
            raise refuse(errno.EALREADY, "a buffer is in the lists twice")
        job = Job(
            file, self._space(file), rocket.DRIVER_NAME, {self._core(file): (0, raw)}, values["task_count"],
            rocket.JOB_TIMEOUT_MS / 1000, hangs=True,
        )  # fmt: skip
        for buffer in written:
            self.system.buffers.keep(buffer)
            buffer.writers.append(job)
        job.on_done.append(lambda done, outcome: self._after(done, written))
        self.system.submit(job)

    def _core(self, file: OpenFile) -> int:
        """Jobs of one file run in order: behind the last one, or on the idlest core."""
        with file.lock:
            last = file.jobs[-1] if file.jobs else None
        return last.cores[0] if last is not None else self.system.scheduler.idlest_core()

    def _handles_in(self, file: OpenFile, element: Element, name: str) -> list[Buffer]:
        data = element.blocks[f"{name}s"].data
        if len(data) < 4 * element.values[f"{name}_count"]:
            raise refuse(errno.EFAULT, "the handles cannot be read")
        return [self.lookup(file, handle) for (handle,) in struct.iter_unpack("<I", data)]

    def _after(self, job: Job, written: Sequence[Buffer]) -> None:
        with self.system.buffers.lock:
            for buffer in written:
                buffer.writers.remove(job)
                self.system.buffers.release(buffer)

    def _prep_bo(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        if values["reserved"]:
            raise refuse(errno.EINVAL, "reserved must be 0")
        buffer = self.lookup(file, values["handle"])
        seconds = values["timeout_ns"] / 1e9 - time.monotonic()
        with self.system.buffers.lock:
            writers = list(buffer.writers)
        for job in writers:
            if not job.done.wait(max(seconds, 0)):
                raise refuse(errno.ETIMEDOUT if seconds > 0 else errno.EBUSY, "a job still writes the buffer")
            seconds = values["timeout_ns"] / 1e9 - time.monotonic()

    def _fini_bo(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        if values["reserved"]:
            raise refuse(errno.EINVAL, "reserved must be 0")
        self.lookup(file, values["handle"])


def _tasks(block: Block, count: int) -> bytes:
    """Descriptors without the gaps that a newer program may leave between them."""
    if len(block.data) < count * block.stride:
        raise refuse(errno.EFAULT, "the tasks cannot be read")
    size = rocket.TASK.size
    raw = b"".join(block.data[at : at + size] for at in range(0, count * block.stride, block.stride))
    if any(not words for _, words in struct.iter_unpack("<II", raw)):
        raise refuse(errno.EINVAL, "a task without commands")
    return raw
