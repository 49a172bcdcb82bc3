"""Descriptors that devices share: dma-buf (memory), dma-heap (where memory comes from), sync_file (fences).

Facts: include/uapi/linux/dma-buf.h, dma-heap.h and sync_file.h.
"""

from __future__ import annotations

from openrknn.uapi.ioctl import WRITE, Array, Descriptor, Ioctl
from openrknn.uapi.layout import Field, Struct

__all__ = [
    "BUFFER_IOCTLS", "BUFFER_SYNC", "FENCE_INFO", "FENCE_IOCTLS", "FENCE_MERGE", "HEAP_ALLOC", "HEAP_IOCTLS",
    "INFO_FENCE", "SYNC_VALID",
]  # fmt: skip

BUFFER_SYNC = Ioctl("DMA_BUF_SYNC", "b", 0, Struct("dma_buf_sync", (Field("flags", "u64"),)), WRITE)
SYNC_VALID = 0b111
"""Read, write, and end instead of start."""
BUFFER_IOCTLS = (BUFFER_SYNC,)

HEAP_ALLOC = Ioctl(
    "DMA_HEAP_ALLOC", "H", 0,
    Struct("dma_heap_allocation_data", (
        Field("len", "u64"), Field("fd"), Field("fd_flags"), Field("heap_flags", "u64"),
    )),
    descriptors=(Descriptor("fd", out=True),),
)  # fmt: skip
HEAP_IOCTLS = (HEAP_ALLOC,)

INFO_FENCE = Struct(
    "sync_fence_info",
    (
        Field("obj_name", "u8", count=32), Field("driver_name", "u8", count=32),
        Field("status", "s32", "0 active, 1 signalled, negative errno"), Field("flags"), Field("timestamp_ns", "u64"),
    ),
)  # fmt: skip
FENCE_INFO = Ioctl(
    "SYNC_FILE_INFO", ">", 4,
    Struct("sync_file_info", (
        Field("name", "u8", count=32), Field("status", "s32"), Field("flags"), Field("num_fences"), Field("pad"),
        Field("sync_fence_info", "u64"),
    )),
    arrays=(Array("sync_fence_info", "num_fences", INFO_FENCE, out=True),),
)  # fmt: skip
FENCE_MERGE = Ioctl(
    "SYNC_MERGE", ">", 3,
    Struct("sync_merge_data", (
        Field("name", "u8", count=32), Field("fd2", "s32"), Field("fence", "s32"), Field("flags"), Field("pad"),
    )),
    descriptors=(Descriptor("fd2"), Descriptor("fence", out=True)),
)  # fmt: skip
FENCE_IOCTLS = (FENCE_INFO, FENCE_MERGE)
