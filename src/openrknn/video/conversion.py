"""From a frame to the pixels of a model's input in one step: crop, scale, colour, borders and channel order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openrknn import pixels
from openrknn.pictures import FITS, crop_offsets, letterbox_box, line_width
from openrknn.pixels.convert import Box, Fill
from openrknn.video.errors import FrameError
from openrknn.video.frame import Bytes, VideoFrame

__all__ = ["Box", "Conversion", "Fill", "boxes_for", "convert", "image_of", "target_view"]

"""The ways to make a frame fit, as in `openrknn.vision.geometry`."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """How one frame was converted."""

    converter: str
    """"rga", "native" or "numpy"."""
    copies: int
    """Passes of the CPU over the pixels: 0 for RGA."""
    total: int
    """With those that the frame had behind it (`VideoFrame.copies`)."""
    note: str = ""
    """Why it was not the first choice: what RGA cannot do."""


def convert(
    frame: VideoFrame,
    target: Bytes | VideoFrame,
    *,
    crop: Box | None = None,
    place: Box | None = None,
    fill: Fill = 114,
    order: str = "rgb",
) -> Conversion:
    """Scale the part `crop` of a frame into the part `place` of `target`, and fill the rest; on the CPU.

        bound = session.bind()
        crop, place = boxes_for(frame.width, frame.height, 640, 640, "letterbox")
        convert(frame, bound.inputs["images"][0], crop=crop, place=place)
        bound.run()

    `target`: uint8 [height, width, 1, 3 or 4] with any row stride, or a frame in RGB, BGR, RGBA, BGRA or GRAY, whose
    format then says the order. `fill`: one number or red, green and blue. `open_converter` (a board's RGA if there is
    one) has the same method.
    """
    view, chosen = target_view(target, order)
    name = pixels.convert(image_of(frame), view, crop=crop, place=place, fill=fill, order=chosen)
    return Conversion(name, 1, frame.copies + 1)


def boxes_for(width: int, height: int, target_width: int, target_height: int, fit: str) -> tuple[Box, Box]:
    """`crop` and `place` in whole pixels for a frame of this size.

    "letterbox": the whole frame in the middle; "crop": its middle fills the target; "stretch"; "line": from the left
    edge on, as high as the target. `openrknn.vision.geometry.place` has the way back.
    """
    whole, all_of_it = (0, 0, width, height), (0, 0, target_width, target_height)
    if fit == "stretch":
        return whole, all_of_it
    if fit == "letterbox":
        left, top, inner_width, inner_height = letterbox_box(width, height, target_width, target_height)
        return whole, (left, top, left + inner_width, top + inner_height)
    if fit == "line":
        return whole, (0, 0, line_width(width, height, target_width, target_height), target_height)
    if fit == "crop":
        scale, *offsets = crop_offsets(width, height, target_width, target_height)
        left, top = (round(-offset / scale) for offset in offsets)
        right, bottom = round((target_width - offsets[0]) / scale), round((target_height - offsets[1]) / scale)
        return (left, top, min(max(right, left + 1), width), min(max(bottom, top + 1), height)), all_of_it
    raise ValueError(f"fit={fit!r} is unknown; the choices are {', '.join(map(repr, FITS))}")


def image_of(frame: VideoFrame) -> pixels.Image:
    """The frame as an image in memory, without a copy."""
    planes = tuple(frame.rows(number) for number in range(len(frame.planes)))
    return pixels.Image(frame.format, frame.width, frame.height, planes, frame.colour_space, frame.colour_range)


_TARGETS = {
    pixels.PixelFormat.RGB: (3, "rgb"),
    pixels.PixelFormat.BGR: (3, "bgr"),
    pixels.PixelFormat.RGBA: (4, "rgb"),
    pixels.PixelFormat.BGRA: (4, "bgr"),
    pixels.PixelFormat.GRAY: (1, "rgb"),
}


def target_view(target: Bytes | VideoFrame, order: str) -> tuple[Bytes, str]:
    """The target as [height, width, channels], and the order of its colours."""
    if not isinstance(target, VideoFrame):
        return target.view(np.ndarray), order
    if target.format not in _TARGETS:
        raise FrameError(
            f"frames are converted to {', '.join(kind.name for kind in _TARGETS)}, not {target.format.name}"
        )
    channels, chosen = _TARGETS[target.format]
    rows = target.rows(0)
    shape, strides = (target.height, target.width, channels), (rows.strides[0], channels, 1)
    return np.lib.stride_tricks.as_strided(rows, shape, strides), chosen
