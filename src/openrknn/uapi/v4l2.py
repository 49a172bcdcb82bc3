"""Video4Linux 2: how a camera hands out its frames, at /dev/video*.

Facts: include/uapi/linux/videodev2.h. Only capture, only memory that the driver owns (MMAP) and its export as dma-bufs.
"""

from __future__ import annotations

from openrknn.uapi.ioctl import READ, WRITE, Array, Descriptor, Ioctl
from openrknn.uapi.layout import Field, Struct

__all__ = [
    "BUFFER", "CAPTURE", "CAPTURE_MPLANE", "CAP_CAPTURE", "CAP_CAPTURE_MPLANE", "CAP_DEVICE_CAPS", "CAP_STREAMING",
    "DQBUF", "ENUM_FMT", "ERROR", "EXPBUF", "FIELD_NONE", "FORMAT_BYTES", "G_FMT", "IOCTLS", "MAX_PLANES",
    "MEMORY_MMAP", "PIX", "PIX_MPLANE", "PLANE", "QBUF", "QUANTIZATION_FULL", "QUANTIZATION_LIMITED", "QUERYBUF",
    "QUERYCAP", "REQBUFS", "STREAMOFF", "STREAMON", "S_FMT", "S_PARM", "TIME_PER_FRAME", "YCBCR_601", "YCBCR_709",
    "YCBCR_BT2020", "fourcc", "fourcc_text",
]  # fmt: skip

CAPTURE, CAPTURE_MPLANE = 1, 9
"""Types of a queue; 9 is the only one of the two with bit 3."""
_MPLANE_BIT = 8
MEMORY_MMAP = 1
CAP_CAPTURE, CAP_CAPTURE_MPLANE, CAP_STREAMING, CAP_DEVICE_CAPS = 0x1, 0x1000, 0x04000000, 0x80000000
FIELD_NONE = 1
ERROR = 0x40
"""Flag of a buffer: its content is damaged."""
YCBCR_601, YCBCR_709, YCBCR_BT2020 = 1, 2, 6
QUANTIZATION_FULL, QUANTIZATION_LIMITED = 1, 2
MAX_PLANES = 8
FORMAT_BYTES = 200
"""Of the union inside v4l2_format."""


def fourcc(text: str) -> int:
    """The number of a pixel format."""
    return int.from_bytes(text.encode("ascii").ljust(4), "little")


def fourcc_text(number: int) -> str:
    """The name of a pixel format, in printable letters."""
    return "".join(chr(byte) if 32 <= byte < 127 else "?" for byte in number.to_bytes(4, "little")).strip()


PIX = Struct("v4l2_pix_format", tuple(Field(name) for name in (
    "width", "height", "pixelformat", "field", "bytesperline", "sizeimage", "colorspace", "priv", "flags", "ycbcr_enc",
    "quantization", "xfer_func",
)))  # fmt: skip
PIX_MPLANE = Struct(
    "v4l2_pix_format_mplane",
    (
        Field("width"), Field("height"), Field("pixelformat"), Field("field"), Field("colorspace"),
        *(field for number in range(MAX_PLANES) for field in (
            Field(f"sizeimage{number}"), Field(f"bytesperline{number}"),
            Field(f"plane_reserved{number}_", "u16", count=6),
        )),
        Field("num_planes", "u8"), Field("flags", "u8"), Field("ycbcr_enc", "u8"), Field("quantization", "u8"),
        Field("xfer_func", "u8"), Field("reserved", "u8", count=7),
    ),
)  # fmt: skip
_FORMAT = Struct(
    # The union holds pointers in other variants, so it starts at a multiple of 8 on 64-bit machines.
    "v4l2_format", (Field("type"), Field("gap"), Field("data", "u8", count=FORMAT_BYTES)),
)
PLANE = Struct("v4l2_plane", (
    Field("bytesused"), Field("length"), Field("m", "word", "offset for mmap"), Field("data_offset"),
    Field("reserved", count=11),
))  # fmt: skip
BUFFER = Struct("v4l2_buffer", (
    Field("index"), Field("type"), Field("bytesused"), Field("flags"), Field("field"),
    Field("seconds", "word"), Field("microseconds", "word"), Field("timecode", count=4),
    Field("sequence"), Field("memory"), Field("m", "word", "offset for mmap, or the planes"),
    Field("length", note="bytes, or the number of planes"), Field("reserved2"), Field("request_fd", "s32"),
))  # fmt: skip
_INTEGER = Struct("v4l2_int", (Field("value", "s32"),))


def _with_planes(name: str, number: int, *, out: bool) -> Ioctl:
    planes = Array("m", "length", PLANE, out=out, flags="type", mask=_MPLANE_BIT)
    return Ioctl(name, "V", number, BUFFER, arrays=(planes,))


QUERYCAP = Ioctl("QUERYCAP", "V", 0, Struct("v4l2_capability", (
    Field("driver", "u8", count=16), Field("card", "u8", count=32), Field("bus_info", "u8", count=32),
    Field("version"), Field("capabilities"), Field("device_caps"), Field("reserved", count=3),
)), READ)  # fmt: skip
ENUM_FMT = Ioctl("ENUM_FMT", "V", 2, Struct("v4l2_fmtdesc", (
    Field("index"), Field("type"), Field("flags"), Field("description", "u8", count=32), Field("pixelformat"),
    Field("mbus_code"), Field("reserved", count=3),
)))  # fmt: skip
G_FMT = Ioctl("G_FMT", "V", 4, _FORMAT)
S_FMT = Ioctl("S_FMT", "V", 5, _FORMAT)
REQBUFS = Ioctl("REQBUFS", "V", 8, Struct("v4l2_requestbuffers", (
    Field("count"), Field("type"), Field("memory"), Field("capabilities"), Field("flags", "u8"),
    Field("reserved", "u8", count=3),
)))  # fmt: skip
QUERYBUF = _with_planes("QUERYBUF", 9, out=True)
QBUF = _with_planes("QBUF", 15, out=False)
EXPBUF = Ioctl("EXPBUF", "V", 16, Struct("v4l2_exportbuffer", (
    Field("type"), Field("index"), Field("plane"), Field("flags"), Field("fd", "s32"), Field("reserved", count=11),
)), descriptors=(Descriptor("fd", out=True),))  # fmt: skip
DQBUF = _with_planes("DQBUF", 17, out=True)
STREAMON = Ioctl("STREAMON", "V", 18, _INTEGER, WRITE)
STREAMOFF = Ioctl("STREAMOFF", "V", 19, _INTEGER, WRITE)
TIME_PER_FRAME = 0x1000
"""In `capability`: the frame rate can be set."""
S_PARM = Ioctl("S_PARM", "V", 22, Struct("v4l2_streamparm", (
    Field("type"), Field("capability"), Field("capturemode"), Field("numerator"), Field("denominator"),
    Field("extendedmode"), Field("readbuffers"), Field("reserved", count=4), Field("rest", "u8", count=160),
)))  # fmt: skip
IOCTLS = (QUERYCAP, ENUM_FMT, G_FMT, S_FMT, REQBUFS, QUERYBUF, QBUF, EXPBUF, DQBUF, STREAMON, STREAMOFF, S_PARM)
