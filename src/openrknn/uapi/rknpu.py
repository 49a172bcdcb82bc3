"""The vendor's driver `rknpu`: as a DRM device on most chips, as the character device /dev/rknpu on RV1103 and RV1106.

Facts: include/rknpu_ioctl.h of the driver, versions 0.8.2 to 0.9.8; limits and defaults: rknpu_drv.c, rknpu_job.c,
rknpu_iommu.c of 0.9.8. Arguments grew with the versions: a driver takes shorter ones and reads zeros at their end.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

from openrknn.uapi.drm import COMMAND_BASE, MAGIC
from openrknn.uapi.ioctl import Descriptor, Ioctl
from openrknn.uapi.layout import Field, Struct

__all__ = [
    "ACTION",
    "DATE",
    "DESCRIPTION",
    "DRIVER_NAME",
    "DRM_IOCTLS",
    "INTERRUPT_CLEAR",
    "LAST_DOMAIN",
    "MAX_RANGES",
    "MEM_CREATE",
    "MEM_CREATE_BY_VERSION",
    "MEM_DESTROY",
    "MEM_MAP",
    "MEM_SYNC",
    "MISC_IOCTLS",
    "MISC_MAGIC",
    "MISC_MEM_CREATE",
    "SUBMIT",
    "SUBMIT_BY_VERSION",
    "TASK",
    "VERSION",
    "Action",
    "JobFlag",
    "MemoryFlag",
    "SyncFlag",
    "mem_create_for",
    "version_code",
]  # fmt: skip

DRIVER_NAME = "rknpu"
DESCRIPTION = "RKNPU driver"
VERSION = (0, 9, 8)
DATE = "20240828"
MISC_MAGIC = "r"
MAX_RANGES = 5
INTERRUPT_CLEAR = 0x1FFFF
LAST_DOMAIN = 15
"""IOMMU domains 0 to 15."""


class MemoryFlag(IntFlag):
    """Of MEM_CREATE; the zeros are: contiguous, not cacheable."""

    NON_CONTIGUOUS = 1 << 0
    CACHEABLE = 1 << 1
    WRITE_COMBINE = 1 << 2
    KERNEL_MAPPING = 1 << 3
    """The kernel maps it too; without it a buffer cannot hold tasks."""
    IOMMU = 1 << 4
    ZEROING = 1 << 5
    SECURE = 1 << 6
    DMA32 = 1 << 7
    TRY_ALLOC_SRAM = 1 << 8
    TRY_ALLOC_NBUF = 1 << 9
    IOMMU_LIMIT_IOVA_ALIGNMENT = 1 << 10


class SyncFlag(IntFlag):
    """Of MEM_SYNC."""

    TO_DEVICE = 1 << 0
    FROM_DEVICE = 1 << 1


class JobFlag(IntFlag):
    """Of SUBMIT."""

    PC = 1 << 0
    """The NPU walks through the tasks by itself; the only mode there is."""
    NONBLOCK = 1 << 1
    PINGPONG = 1 << 2
    FENCE_IN = 1 << 3
    FENCE_OUT = 1 << 4


class Action(IntEnum):
    """What ACTION asks for."""

    GET_HW_VERSION = 0
    GET_DRV_VERSION = 1
    GET_FREQ = 2
    SET_FREQ = 3
    GET_VOLT = 4
    SET_VOLT = 5
    ACT_RESET = 6
    GET_BW_PRIORITY = 7
    SET_BW_PRIORITY = 8
    GET_BW_EXPECT = 9
    SET_BW_EXPECT = 10
    GET_BW_TW = 11
    SET_BW_TW = 12
    ACT_CLR_TOTAL_RW_AMOUNT = 13
    GET_DT_WR_AMOUNT = 14
    GET_DT_RD_AMOUNT = 15
    GET_WT_RD_AMOUNT = 16
    GET_TOTAL_RW_AMOUNT = 17
    GET_IOMMU_EN = 18
    SET_PROC_NICE = 19
    POWER_ON = 20
    POWER_OFF = 21
    GET_TOTAL_SRAM_SIZE = 22
    GET_FREE_SRAM_SIZE = 23
    GET_IOMMU_DOMAIN_ID = 24
    SET_IOMMU_DOMAIN_ID = 25


TASK = Struct(
    "rknpu_task",
    (
        Field("flags"), Field("op_idx"), Field("enable_mask"), Field("int_mask"), Field("int_clear"),
        Field("int_status"), Field("regcfg_amount"), Field("regcfg_offset"), Field("regcmd_addr", "u64"),
    ),
    packed=True,
)  # fmt: skip
"""One task, as stored in the buffer that SUBMIT names. The program reads int_status back."""

_ACTION = Struct("rknpu_action", (Field("flags", note="an Action"), Field("value")))
_CREATE = (
    Field("handle"), Field("flags", note="MemoryFlag"), Field("size", "u64"), Field("obj_addr", "u64"),
    Field("dma_addr", "u64"),
)  # fmt: skip
_CREATE_SRAM = (*_CREATE, Field("sram_size", "u64"))
_CREATE_DOMAIN = (*_CREATE_SRAM, Field("iommu_domain_id", "s32"), Field("core_mask"))
MEM_CREATE_BY_VERSION = {
    (0, 0, 0): Struct("rknpu_mem_create", _CREATE),
    (0, 8, 0): Struct("rknpu_mem_create", _CREATE_SRAM),
    (0, 9, 0): Struct("rknpu_mem_create", _CREATE_DOMAIN),
}
"""From this version on. Only 0.8 and 0.9 were looked at closely; programs with the shortest form exist."""

_MAP = Struct("rknpu_mem_map", (Field("handle"), Field("reserved"), Field("offset", "u64")))
_DESTROY = Struct("rknpu_mem_destroy", (Field("handle"), Field("reserved"), Field("obj_addr", "u64")))
_SYNC = Struct(
    "rknpu_mem_sync",
    (Field("flags"), Field("reserved"), Field("obj_addr", "u64"), Field("offset", "u64"), Field("size", "u64")),
)


def _submit(*middle: Field) -> Struct:
    """Task ranges: `subcore0` is the first task of range 0, `subcore1` its number of tasks, and so on."""
    return Struct(
        "rknpu_submit",
        (
            Field("flags", note="JobFlag"), Field("timeout", note="ms"), Field("task_start"), Field("task_number"),
            Field("task_counter"), Field("priority", "s32"), Field("task_obj_addr", "u64"),
            *middle, Field("core_mask"), Field("fence_fd", "s32"), Field("subcore", count=2 * MAX_RANGES),
        ),
    )  # fmt: skip


SUBMIT_BY_VERSION = {
    (0, 8, 0): _submit(Field("regcfg_obj_addr", "u64"), Field("task_base_addr", "u64"), Field("user_data", "u64")),
    (0, 9, 0): _submit(
        Field("iommu_domain_id"), Field("reserved"), Field("task_base_addr", "u64"), Field("hw_elapse_time", "s64")
    ),
}
"""From this version on; the size is the same, two fields got another meaning."""

_SUBMIT_DESCRIPTORS = (
    Descriptor("fence_fd", when="flag", flags="flags", mask=JobFlag.FENCE_IN),
    Descriptor("fence_fd", out=True),
)


def _ioctl(name: str, number: int, argument: Struct, descriptors: tuple[Descriptor, ...] = ()) -> Ioctl:
    return Ioctl(name, MAGIC, COMMAND_BASE + number, argument, descriptors=descriptors)


ACTION = _ioctl("ACTION", 0, _ACTION)
SUBMIT = _ioctl("SUBMIT", 1, SUBMIT_BY_VERSION[0, 9, 0], _SUBMIT_DESCRIPTORS)
MEM_CREATE = _ioctl("MEM_CREATE", 2, MEM_CREATE_BY_VERSION[0, 9, 0])
MEM_MAP = _ioctl("MEM_MAP", 3, _MAP)
MEM_DESTROY = _ioctl("MEM_DESTROY", 4, _DESTROY)
MEM_SYNC = _ioctl("MEM_SYNC", 5, _SYNC)
DRM_IOCTLS = (ACTION, SUBMIT, MEM_CREATE, MEM_MAP, MEM_DESTROY, MEM_SYNC)

MISC_MEM_CREATE = Ioctl(
    "MEM_CREATE", MISC_MAGIC, 2, MEM_CREATE.argument,
    descriptors=(Descriptor("handle", when="positive"), Descriptor("handle", out=True)),
)  # fmt: skip
"""On /dev/rknpu the handle is a dma-buf descriptor: handed in, or opened by the driver if it is 0."""
MISC_IOCTLS = (
    Ioctl("ACTION", MISC_MAGIC, 0, _ACTION),
    Ioctl("SUBMIT", MISC_MAGIC, 1, SUBMIT.argument, descriptors=_SUBMIT_DESCRIPTORS),
    MISC_MEM_CREATE,
    Ioctl("MEM_MAP", MISC_MAGIC, 3, _MAP),
    Ioctl("MEM_DESTROY", MISC_MAGIC, 4, _DESTROY),
    Ioctl("MEM_SYNC", MISC_MAGIC, 5, _SYNC),
)


def version_code(version: tuple[int, int, int] = VERSION) -> int:
    """What GET_DRV_VERSION answers."""
    major, minor, patch = version
    return major * 10000 + minor * 100 + patch


def mem_create_for(version: tuple[int, int, int]) -> Ioctl:
    """MEM_CREATE as programs of this version call it."""
    newest = max((since for since in MEM_CREATE_BY_VERSION if since <= version), default=min(MEM_CREATE_BY_VERSION))
    return MEM_CREATE.with_argument(MEM_CREATE_BY_VERSION[newest])
