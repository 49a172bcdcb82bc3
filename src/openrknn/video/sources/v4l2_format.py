"""How the frames of a V4L2 format are stored: which plane is in which buffer, where, and how far rows are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from openrknn.pixels.formats import PixelFormat
from openrknn.uapi import v4l2
from openrknn.video.errors import SourceError
from openrknn.video.sources.base import check_size

__all__ = ["FORMATS", "Layout", "layout_of", "preferred"]

FORMATS: dict[int, PixelFormat | None] = {
    v4l2.fourcc(name): pixel_format
    for name, pixel_format in (
        ("NV12", PixelFormat.NV12), ("NM12", PixelFormat.NV12), ("NV21", PixelFormat.NV21), ("YU12", PixelFormat.I420),
        ("YUYV", PixelFormat.YUYV), ("UYVY", PixelFormat.UYVY), ("MJPG", None), ("JPEG", None),
        ("RGB3", PixelFormat.RGB), ("BGR3", PixelFormat.BGR), ("GREY", PixelFormat.GRAY),
    )
}  # fmt: skip
"""In the order of preference; None: JPEG."""
_SEPARATE = frozenset((v4l2.fourcc("NM12"),))
"""Formats with a buffer for each plane."""
_NAMES = {"MJPEG": "MJPG", "I420": "YU12", "GRAY": "GREY", "RGB": "RGB3", "BGR": "BGR3"}
"""Usual names of formats -> V4L2's."""
_LARGEST_STRIDE = 1 << 20


@dataclass(frozen=True)
class Layout:
    """One negotiated format."""

    name: str
    format: PixelFormat | None
    """None: JPEG."""
    width: int
    height: int
    places: tuple[tuple[int, int, int], ...]
    """Of each plane: number of its buffer, offset, stride."""
    plane_bytes: tuple[int, ...]
    """What each buffer has at least."""
    encoding: int
    """YCBCR_*"""
    is_full_range: bool


def preferred(offered: Sequence[int], wish: str | None) -> int | None:
    """The best format that is offered, or the wish ("mjpeg" is MJPG)."""
    if wish is not None:
        name = _NAMES.get(wish.upper(), wish.upper())
        number = v4l2.fourcc(name) if len(name) <= 4 and name.isascii() else 0
        return number if number in offered and number in FORMATS else None
    return next((number for number in FORMATS if number in offered), None)


def layout_of(place: str, values: Mapping[str, int], *, is_single: bool) -> Layout:
    """From what the driver answered, which is checked: it may be any program that calls itself a camera."""
    number, width, height = values["pixelformat"], values["width"], values["height"]
    name = v4l2.fourcc_text(number)
    check_size(place, width, height)
    if number not in FORMATS:
        raise SourceError(f"{place}: the camera switched to the format {name}, which is not supported")
    pixel_format = FORMATS[number]
    is_full = values["quantization"] == v4l2.QUANTIZATION_FULL
    common = (name, pixel_format, width, height)
    if pixel_format is None:
        return Layout(*common, (), (1,), values["ycbcr_enc"], is_full)
    count = 1 if is_single else min(values["num_planes"], v4l2.MAX_PLANES)
    announced = [values["bytesperline"] if is_single else values[f"bytesperline{at}"] for at in range(count)]
    is_separate = number in _SEPARATE
    if is_separate and len(announced) != len(pixel_format.planes):
        raise SourceError(f"{place}: {name} in {len(announced)} buffers; it has {len(pixel_format.planes)} planes")
    if not announced:
        raise SourceError(f"{place}: a frame in no buffer; the driver contradicts itself")
    places, ends, offset = [], [0] * len(announced), 0
    for index, layout in enumerate(pixel_format.planes):
        buffer = index if is_separate else 0
        row = layout.row_bytes(width)
        stride = announced[buffer]
        if not is_separate and index and layout.horizontal * pixel_format.planes[0].sample_bytes > layout.sample_bytes:
            stride = -(-stride // layout.horizontal)  # of I420: half of luma's
        stride = stride or row
        if not row <= stride <= _LARGEST_STRIDE:
            raise SourceError(
                f"{place}: the camera announces rows of {stride} bytes for {name} {width}x{height}; a row has {row} "
                "bytes, so its driver is at fault"
            )
        offset = 0 if is_separate else offset
        places.append((buffer, offset, stride))
        offset += layout.rows(height) * stride
        ends[buffer] = places[-1][1] + (layout.rows(height) - 1) * stride + row
    return Layout(*common, tuple(places), tuple(ends), values["ycbcr_enc"], is_full)
