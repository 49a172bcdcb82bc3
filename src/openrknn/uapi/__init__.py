"""Kernel interfaces as tables: ioctls, the layout of their arguments, and which fields are pointers.

    layout    Struct: fields, offsets, pack and unpack
    ioctl     Ioctl: number, argument, pointers and file descriptors inside it
    drm       what every DRM device understands
    rknpu     the vendor's driver, as a DRM device and as /dev/rknpu
    rocket    the driver of the mainline kernel
    rga       Rockchip's engine for scaling and colour conversion, at /dev/rga
    rga_cores which cores of it a chip has, and what they can do
    dmabuf    dma-buf, dma-heap and sync_file descriptors
    tables    which ioctls the files of each driver understand

Only facts live here. The emulated kernel answers from these tables, the preload library's C header is generated from
them, and clients of real drivers pack arguments with them.
"""

from __future__ import annotations

from openrknn.uapi.ioctl import Array, Descriptor, Ioctl
from openrknn.uapi.layout import Field, Struct

__all__ = ["Array", "Descriptor", "Field", "Ioctl", "Struct"]
