"""Tasks of RGA for frames: where planes must be, which fields are set, and why something is not possible."""

from __future__ import annotations

from dataclasses import dataclass

from openrknn.pixels.convert import Box
from openrknn.pixels.formats import ColourRange, ColourSpace, PixelFormat
from openrknn.uapi import rga
from openrknn.uapi.rga_cores import Core, Picture, bits_per_pixel, refusal
from openrknn.video.errors import VideoError
from openrknn.video.frame import VideoFrame

__all__ = ["NotForRgaError", "Placed", "bars", "blit", "placed"]

_FORMATS = {PixelFormat[kind.name]: kind for kind in rga.Format if kind is not rga.Format.GRAY}
_MATRICES = {
    (ColourSpace.BT601, ColourRange.LIMITED): rga.Matrix.BT601_LIMITED,
    (ColourSpace.BT601, ColourRange.FULL): rga.Matrix.BT601_FULL,
    (ColourSpace.BT709, ColourRange.LIMITED): rga.Matrix.BT709_LIMITED,
}
_NOT_ROTATED = 1 << 16
_LARGEST = 0xFFFF


class NotForRgaError(VideoError):
    """RGA cannot convert this; the message says why. The CPU can."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A frame as RGA sees it: one descriptor per buffer, a size that includes padding, and where the frame begins."""

    format: rga.Format
    descriptors: tuple[int, ...]
    virtual_width: int
    virtual_height: int
    top: int
    """Rows of the buffer before the frame."""
    size_bytes: int

    def picture(self, box: Box) -> Picture:
        """A part of the frame."""
        left, top, right, bottom = box
        size = (right - left, bottom - top)
        return Picture(self.format, left, top + self.top, *size, self.virtual_width, self.virtual_height)


def placed(frame: VideoFrame, name: str) -> Placed:
    """How RGA can be told of a frame's planes; `NotForRgaError` if it cannot."""
    kind, planes, layouts = _FORMATS.get(frame.format), frame.planes, frame.format.planes
    if kind is None:
        raise NotForRgaError(f"the {name} is {frame.format.name}: RGA changes the range of gray images in its own way")
    if any(plane.descriptor < 0 for plane in planes):
        raise NotForRgaError(f"the {name} is in ordinary memory, and RGA takes dma-bufs")
    bits = bits_per_pixel(kind)
    width, rest = divmod(planes[0].stride * 8, bits)
    if rest or width > _LARGEST:
        raise NotForRgaError(f"rows of {planes[0].stride} bytes are no whole number of pixels of the {name}")
    top, rest = divmod(planes[0].offset, planes[0].stride)
    if rest or (top and len(planes) > 1):
        raise NotForRgaError(f"the {name} begins at byte {planes[0].offset} of its buffer; RGA takes whole rows")
    descriptors = tuple(dict.fromkeys(plane.descriptor for plane in planes))
    height = top + frame.height
    if len(planes) > 1:
        height = _rows_before_chroma(frame, name, own_buffers=len(descriptors) == len(planes))
    if len(descriptors) not in (1, len(planes)) or height > _LARGEST:
        raise NotForRgaError(f"the planes of the {name} are in buffers that RGA cannot be told of")
    for plane, layout in zip(planes[1:], layouts[1:], strict=True):
        if plane.stride != layout.row_bytes(width):
            raise NotForRgaError(f"a chroma plane of the {name} has rows of {plane.stride} bytes, which RGA cannot do")
    size = sum(layout.rows(height) * layout.row_bytes(width) for layout in layouts)
    return Placed(kind, descriptors, width, height, top, size)


def _rows_before_chroma(frame: VideoFrame, name: str, *, own_buffers: bool) -> int:
    """The height that RGA computes the places of further planes from."""
    planes = frame.planes
    if own_buffers:
        if any(plane.offset for plane in planes):
            raise NotForRgaError(f"planes of the {name} do not begin at the start of their buffers")
        return frame.height
    height, rest = divmod(planes[1].offset, planes[0].stride)
    at = planes[1].offset + frame.format.planes[1].rows(height) * planes[1].stride
    if rest or height < frame.height or (len(planes) > 2 and planes[2].offset != at):
        raise NotForRgaError(f"the planes of the {name} do not follow each other in whole rows")
    return height


def _fields(name: str, picture: Picture, handles: tuple[int, ...]) -> dict[str, int]:
    addresses = dict(zip(("yrgb_addr", "uv_addr", "v_addr"), handles, strict=False))
    values = {
        **addresses, "format": picture.format, "act_w": picture.width, "act_h": picture.height,
        "x_offset": picture.left, "y_offset": picture.top, "vir_w": picture.virtual_width,
        "vir_h": picture.virtual_height, "rd_mode": rga.RASTER,
    }  # fmt: skip
    return {f"{name}_{field}": value for field, value in values.items()}


def blit(
    frame: VideoFrame, source: Placed, target: Placed, *,
    boxes: tuple[Box, Box], handles: dict[int, int], cores: tuple[Core, ...],
) -> dict[str, int]:  # fmt: skip
    """The task that converts: the part boxes[0] of the frame into boxes[1] of the target."""
    matrix = _MATRICES.get((frame.colour_space, frame.colour_range)) if frame.format.is_yuv else 0
    if matrix is None:
        raise NotForRgaError(f"RGA has no {frame.colour_space.name} in the {frame.colour_range.value} range")
    pictures = source.picture(boxes[0]), target.picture(boxes[1])
    _check(cores, *pictures)
    return {
        "render_mode": rga.BLT, "cosa": _NOT_ROTATED, "handle_flag": 1, "yuv2rgb_mode": matrix,
        **_fields("src", pictures[0], tuple(handles[one] for one in source.descriptors)),
        **_fields("dst", pictures[1], tuple(handles[one] for one in target.descriptors)),
    }  # fmt: skip


def bars(
    target: Placed, size: tuple[int, int], place: Box, *,
    colour: tuple[int, int, int], handles: dict[int, int], cores: tuple[Core, ...],
) -> list[dict[str, int]]:  # fmt: skip
    """Tasks that fill what the image does not cover."""
    width, height = size
    left, top, right, bottom = place
    tasks = []
    for box in ((0, 0, width, top), (0, bottom, width, height), (0, top, left, bottom), (right, top, width, bottom)):
        if box[0] < box[2] and box[1] < box[3]:
            picture = target.picture(box)
            _check(cores, None, picture)
            red, green, blue = colour
            tasks.append({
                "render_mode": rga.FILL, "cosa": _NOT_ROTATED, "handle_flag": 1,
                "fg_color": 255 << 24 | blue << 16 | green << 8 | red,
                **_fields("dst", picture, tuple(handles[one] for one in target.descriptors)),
            })  # fmt: skip
    return tasks


def _check(cores: tuple[Core, ...], source: Picture | None, target: Picture) -> None:
    """Refused before the driver does so without a reason. Cores that are not known are not judged."""
    reasons = [refusal(core, source, target) for core in cores]
    if reasons and all(reasons):
        raise NotForRgaError("; ".join(dict.fromkeys(reasons)))
