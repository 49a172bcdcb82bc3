"""Which ioctls the files of each kind understand. The position in `TABLES` is the kind's number on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from openrknn.uapi import dmabuf, drm, rga, rknpu, rocket, v4l2
from openrknn.uapi.ioctl import Ioctl

__all__ = ["DMA_BUF", "DMA_HEAP", "RGA", "RKNPU", "RKNPU_MISC", "ROCKET", "SYNC_FILE", "TABLES", "V4L2", "Table"]


@dataclass(frozen=True)
class Table:
    """One kind of file."""

    name: str
    ioctls: tuple[Ioctl, ...]

    @cached_property
    def by_key(self) -> Mapping[tuple[int, int], Ioctl]:
        """By type and number."""
        return {ioctl.key: ioctl for ioctl in self.ioctls}


RKNPU = Table("rknpu", (*drm.IOCTLS, *rknpu.DRM_IOCTLS))
ROCKET = Table("rocket", (*drm.IOCTLS, *rocket.IOCTLS))
RKNPU_MISC = Table("rknpu_misc", rknpu.MISC_IOCTLS)
DMA_HEAP = Table("dma_heap", dmabuf.HEAP_IOCTLS)
SYNC_FILE = Table("sync_file", dmabuf.FENCE_IOCTLS)
DMA_BUF = Table("dma_buf", dmabuf.BUFFER_IOCTLS)
V4L2 = Table("v4l2", v4l2.IOCTLS)
RGA = Table("rga", rga.IOCTLS)
TABLES = (RKNPU, ROCKET, RKNPU_MISC, DMA_HEAP, SYNC_FILE, DMA_BUF, V4L2, RGA)
