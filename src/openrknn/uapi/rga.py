"""RGA, Rockchip's engine for scaling and colour conversion, at /dev/rga: the vendor's driver multi_rga 1.2 and newer.

Facts: the public headers of librga 1.10 (rga.h, im2d_type.h) and of the vendor's kernel (drivers/video/rockchip/rga3,
rga_ioctl.h). Formats have no shift here: librga's own numbers are these times 256. Buffers are imported once and named
by handles; a request is created, filled with tasks and submitted. The mainline kernel has another interface for the
same engine, a V4L2 memory-to-memory device (rockchip-rga), which this is not.
"""

from __future__ import annotations

from enum import IntEnum

from openrknn.uapi.ioctl import READ, WRITE, Array, Descriptor, Ioctl
from openrknn.uapi.layout import Field, Struct

__all__ = [
    "ASYNC", "BLT", "DMA_BUFFER", "DRIVER_VERSION", "EXTERNAL_BUFFER", "FILL", "GET_DRIVER_VERSION", "GET_HW_VERSION",
    "IMPORT_BUFFER", "IOCTLS", "MOST_BUFFERS", "MOST_TASKS", "NODE", "RASTER", "RELEASE_BUFFER", "REQUEST_CANCEL",
    "REQUEST_CONFIG", "REQUEST_CREATE", "REQUEST_SUBMIT", "SYNC", "TASK", "VERSIONS", "Format", "Matrix",
]  # fmt: skip

NODE = "/dev/rga"
MAGIC = "r"
SYNC, ASYNC = 0x5017, 0x5018
"""How a request is run: the call waits, or it gives a fence."""
BLT, FILL = 0, 2
"""What a task does: convert an image, or fill a rectangle."""
RASTER = 1
"""Rows of pixels, neither tiled nor compressed."""
DMA_BUFFER = 0
MOST_BUFFERS = 40
MOST_TASKS = 256
VERSIONS = 5
"""Of cores that GET_HW_VERSION has room for."""
DRIVER_VERSION = (1, 3, 11)


class Format(IntEnum):
    """Pixel formats that frames and models have."""

    RGBA = 0x0
    RGB = 0x2
    BGRA = 0x3
    BGR = 0x7
    NV12 = 0xA
    I420 = 0xB
    NV21 = 0xE
    GRAY = 0x15
    YUYV = 0x1C
    UYVY = 0x1E


class Matrix(IntEnum):
    """From YUV to RGB; there is neither BT.709 in the full range nor BT.2020 in this field."""

    BT601_LIMITED = 1
    BT601_FULL = 2
    BT709_LIMITED = 3


def _image(name: str) -> tuple[Field, ...]:
    shorts = (
        "act_w", "act_h", "x_offset", "y_offset", "vir_w", "vir_h", "endian_mode", "alpha_swap", "rotate_mode",
        "rd_mode", "is_10b_compact", "is_10b_endian", "enable",
    )  # fmt: skip
    return (
        Field(f"{name}_yrgb_addr", "u64", "a handle"), Field(f"{name}_uv_addr", "u64", "0: behind the first plane"),
        Field(f"{name}_v_addr", "u64"), Field(f"{name}_format"),
        *(Field(f"{name}_{short}", "u16") for short in shorts),
    )  # fmt: skip


TASK = Struct(
    "rga_req",
    (
        Field("render_mode", "u8"), *_image("src"), *_image("dst"), *_image("pat"),
        Field("rop_mask_addr", "u64"), Field("lut_addr", "u64"), Field("clip", "u16", count=4),
        Field("sina", "s32"), Field("cosa", "s32", "65536: not rotated"), Field("alpha_rop_flag", "u16"),
        Field("scale_mode", "u8"), Field("color_key_max"), Field("color_key_min"),
        Field("fg_color", note="to fill with: red in the lowest byte"), Field("bg_color"),
        Field("gradient", "u16", count=8), Field("line_points", "u16", count=4), Field("line", count=3),
        Field("fading", "u8", count=4), Field("pd_mode", "u8"), Field("alpha_global_value", "u8"),
        Field("rop_code", "u16"), Field("bsfilter_flag", "u8"), Field("palette_mode", "u8"),
        Field("yuv2rgb_mode", "u8"), Field("endian_mode", "u8"), Field("rotate_mode", "u8"),
        Field("color_fill_mode", "u8"), Field("gap0", "u8", count=2), Field("mmu_en", "u8"),
        Field("mmu_base_addr", "u64"), Field("mmu_flag"), Field("gap1"), Field("alpha_rop_mode", "u8"),
        Field("src_trans_mode", "u8"), Field("dither_mode", "u8"), Field("gap2", "u8"),
        Field("full_csc", "u8", count=40), Field("in_fence_fd", "s32"),
        Field("core", "u8", "bits of the cores that may do it; 0: any"), Field("priority", "u8"),
        Field("out_fence_fd", "s32"), Field("handle_flag", "u8", "addresses are handles"),
        Field("rest", "u8", "mosaic, OSD, early interrupts", count=139),
    ),
)  # fmt: skip
"""One operation. 504 bytes."""

_VERSION = Struct("rga_version_t", (Field("major"), Field("minor"), Field("revision"), Field("str", "u8", count=16)))
EXTERNAL_BUFFER = Struct(
    "rga_external_buffer",
    (
        Field("memory", "u64", "a descriptor"), Field("type"), Field("handle"), Field("width"), Field("height"),
        Field("format"), Field("size"), Field("reserve", "u8", count=252),
    ),
)  # fmt: skip
_POOL = Struct("rga_buffer_pool", (Field("buffers", "u64"), Field("size")))
_REQUEST = Struct(
    "rga_user_request",
    (
        Field("task_ptr", "u64"), Field("task_num"), Field("cmd_ptr", "u64"), Field("cmd_num"), Field("id"),
        Field("sync_mode"), Field("release_fence_fd", "s32"), Field("mpi_config_flags"),
        Field("acquire_fence_fd", "s32"), Field("reserve", "u8", count=120),
    ),
)  # fmt: skip
_ID = Struct("rga_request_id", (Field("id"),))
_TASKS = (Array("task_ptr", "task_num", TASK),)
_BUFFERS = Array("buffers", "size", EXTERNAL_BUFFER)

GET_DRIVER_VERSION = Ioctl("RGA_GET_DRIVER_VERSION", MAGIC, 0x1, _VERSION, READ)
GET_HW_VERSION = Ioctl(
    "RGA_GET_HW_VERSION", MAGIC, 0x2,
    Struct("rga_hw_versions_t", (
        *(field for number in range(VERSIONS) for field in (
            Field(f"major{number}_"), Field(f"minor{number}_"), Field(f"revision{number}_"),
            Field(f"str{number}_", "u8", count=16),
        )),
        Field("size"),
    )),
    READ,
)  # fmt: skip
IMPORT_BUFFER = Ioctl(
    "RGA_IMPORT_BUFFER", MAGIC, 0x3, _POOL,
    arrays=(_BUFFERS, Array("buffers", "size", EXTERNAL_BUFFER, out=True)),
    descriptors=(Descriptor("memory", when="positive", array=_BUFFERS),),
    note="The result is the handle of the last one; 0 is a failure.",
)  # fmt: skip
RELEASE_BUFFER = Ioctl("RGA_RELEASE_BUFFER", MAGIC, 0x4, _POOL, WRITE, arrays=(_BUFFERS,))
REQUEST_CREATE = Ioctl("RGA_REQUEST_CREATE", MAGIC, 0x5, _ID, READ)
REQUEST_SUBMIT = Ioctl(
    "RGA_REQUEST_SUBMIT", MAGIC, 0x6, _REQUEST, arrays=_TASKS,
    descriptors=(Descriptor("acquire_fence_fd", when="positive"), Descriptor("release_fence_fd", out=True)),
)  # fmt: skip
REQUEST_CONFIG = Ioctl(
    "RGA_REQUEST_CONFIG", MAGIC, 0x7, _REQUEST, arrays=_TASKS,
    descriptors=(Descriptor("acquire_fence_fd", when="positive"),),
)  # fmt: skip
REQUEST_CANCEL = Ioctl("RGA_REQUEST_CANCEL", MAGIC, 0x8, _ID)
IOCTLS = (
    GET_DRIVER_VERSION, GET_HW_VERSION, IMPORT_BUFFER, RELEASE_BUFFER, REQUEST_CREATE, REQUEST_SUBMIT, REQUEST_CONFIG,
    REQUEST_CANCEL,
)  # fmt: skip
"""Calls for buffers that are not imported (0x5017 and its neighbours) are not here: librga 1.4 and newer has these."""
