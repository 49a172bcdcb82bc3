"""The driver `rocket` of the mainline kernel (6.18 and newer), at /dev/accel/accel0.

Facts: include/uapi/drm/rocket_accel.h and drivers/accel/rocket.
"""

from __future__ import annotations

from openrknn.uapi.drm import COMMAND_BASE, MAGIC
from openrknn.uapi.ioctl import WRITE, Array, Ioctl
from openrknn.uapi.layout import Field, Struct

__all__ = [
    "CREATE_BO", "DESCRIPTION", "DRIVER_NAME", "FINI_BO", "INTERRUPT_MASK", "IOCTLS", "JOB", "JOB_TIMEOUT_MS",
    "PREP_BO", "SUBMIT", "TASK", "VERSION",
]  # fmt: skip

DRIVER_NAME = "rocket"
DESCRIPTION = "rocket DRM"
VERSION = (0, 0, 0)
"""The driver fills in no numbers, and no date."""
JOB_TIMEOUT_MS = 500
INTERRUPT_MASK = 0x300
"""The driver waits for the DPU and for nothing else."""

TASK = Struct("drm_rocket_task", (Field("regcmd", note="device address"), Field("regcmd_count", note="all words")))
JOB = Struct(
    "drm_rocket_job",
    (
        Field("tasks", "u64"), Field("in_bo_handles", "u64"), Field("out_bo_handles", "u64"),
        Field("task_count"), Field("task_struct_size"), Field("in_bo_handle_count"), Field("out_bo_handle_count"),
    ),
)  # fmt: skip

CREATE_BO = Ioctl(
    "CREATE_BO", MAGIC, COMMAND_BASE + 0,
    Struct("drm_rocket_create_bo", (
        Field("size"), Field("handle"), Field("dma_address", "u64"), Field("offset", "u64"),
    )),
)  # fmt: skip
SUBMIT = Ioctl(
    "SUBMIT", MAGIC, COMMAND_BASE + 1,
    Struct("drm_rocket_submit", (
        Field("jobs", "u64"), Field("job_count"), Field("job_struct_size"), Field("reserved", "u64"),
    )),
    WRITE,
    arrays=(
        Array("jobs", "job_count", JOB, stride="job_struct_size", inside=(
            Array("tasks", "task_count", TASK, stride="task_struct_size"),
            Array("in_bo_handles", "in_bo_handle_count", 4),
            Array("out_bo_handles", "out_bo_handle_count", 4),
        )),
    ),
)  # fmt: skip
PREP_BO = Ioctl(
    "PREP_BO", MAGIC, COMMAND_BASE + 2,
    Struct("drm_rocket_prep_bo", (
        Field("handle"), Field("reserved"), Field("timeout_ns", "s64", "absolute, CLOCK_MONOTONIC"),
    )),
    WRITE,
)  # fmt: skip
FINI_BO = Ioctl(
    "FINI_BO", MAGIC, COMMAND_BASE + 3, Struct("drm_rocket_fini_bo", (Field("handle"), Field("reserved"))), WRITE
)
IOCTLS = (CREATE_BO, SUBMIT, PREP_BO, FINI_BO)
