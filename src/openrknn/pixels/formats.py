"""Memory layouts and colour spaces of video frames."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["ColourRange", "ColourSpace", "PixelFormat", "PlaneLayout"]


@dataclass(frozen=True, slots=True)
class PlaneLayout:
    """One plane of a format: how many bytes a row of it has, and how many rows there are."""

    sample_bytes: int
    """Bytes of one sample: 2 for the interleaved chroma of NV12."""
    horizontal: int = 1
    """Pixels of the image that one sample covers, along a row."""
    vertical: int = 1
    """Rows of the image that one row of samples covers."""

    def row_bytes(self, width: int) -> int:
        """Bytes in a row of an image of this width, without padding."""
        return -(-width // self.horizontal) * self.sample_bytes

    def rows(self, height: int) -> int:
        """Rows of the plane for an image of this height."""
        return -(-height // self.vertical)


class PixelFormat(Enum):
    """Formats of decoders and cameras. The value is the name of the format in V4L2 and GStreamer, in lower case.

    Chroma of NV12, NV21 and I420 has half the width and half the height, rounded up.
    """

    NV12 = "nv12"
    NV21 = "nv21"
    I420 = "i420"
    YUYV = "yuyv"
    UYVY = "uyvy"
    RGB = "rgb"
    BGR = "bgr"
    RGBA = "rgba"
    BGRA = "bgra"
    GRAY = "gray"

    @property
    def planes(self) -> tuple[PlaneLayout, ...]:
        """The planes, luma first."""
        return _PLANES[self]

    @property
    def is_yuv(self) -> bool:
        """Whether it has luma and chroma."""
        return self in _YUV


_LUMA = PlaneLayout(1)
_PLANES = {
    PixelFormat.NV12: (_LUMA, PlaneLayout(2, 2, 2)),
    PixelFormat.NV21: (_LUMA, PlaneLayout(2, 2, 2)),
    PixelFormat.I420: (_LUMA, PlaneLayout(1, 2, 2), PlaneLayout(1, 2, 2)),
    # Two pixels share four bytes.
    PixelFormat.YUYV: (PlaneLayout(4, 2),),
    PixelFormat.UYVY: (PlaneLayout(4, 2),),
    PixelFormat.RGB: (PlaneLayout(3),),
    PixelFormat.BGR: (PlaneLayout(3),),
    PixelFormat.RGBA: (PlaneLayout(4),),
    PixelFormat.BGRA: (PlaneLayout(4),),
    PixelFormat.GRAY: (_LUMA,),
}
_YUV = frozenset((PixelFormat.NV12, PixelFormat.NV21, PixelFormat.I420, PixelFormat.YUYV, PixelFormat.UYVY))


class ColourSpace(Enum):
    """The matrix between YUV and RGB."""

    BT601 = "bt601"
    BT709 = "bt709"
    BT2020 = "bt2020"


class ColourRange(Enum):
    """Which values luma takes: 16 to 235 in video (limited), 0 to 255 in JPEG (full)."""

    LIMITED = "limited"
    FULL = "full"
