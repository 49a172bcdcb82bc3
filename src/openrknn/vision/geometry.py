"""The placement of an image in the frame of a model's input.

    frame = picture * scale + offset        for x and y each

holds for every way to make a picture fit: stretched, whole with bars around it (letterbox), its middle (crop), or as a
line of text that starts at the left edge (line).
Pixels are squares: pixel 0 covers 0 to 1, and a picture of width w ends at w.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openrknn.pictures import FITS, crop_offsets, letterbox_box, line_width
from openrknn.vision.heads import Array, Floats, Frame


@dataclass(frozen=True, slots=True)
class Placement:
    """One picture in one frame."""

    width: int
    height: int
    """Of the picture."""
    frame: Frame
    scale_x: float
    scale_y: float
    offset_x: float
    offset_y: float

    def to_frame(self, points: Array) -> Floats:
        """[..., 2] from picture to frame."""
        scale, offset = self._arrays()
        return np.asarray(points * scale + offset, np.float32)

    def to_picture(self, points: Array) -> Floats:
        """[..., 2] from frame to picture."""
        scale, offset = self._arrays()
        return np.asarray((points - offset) / scale, np.float32)

    def boxes_to_picture(self, boxes: Array) -> Floats:
        """[n, 4] from frame to picture; what reaches over the edge is cut off."""
        corners = self.to_picture(boxes.reshape(-1, 2, 2))
        np.clip(corners, 0, (self.width, self.height), out=corners)
        return corners.reshape(-1, 4)

    def maps_to_picture(self, maps: Array) -> Array:
        """[n, h, w] that cover the frame, of whatever resolution, as [n, height, width] of the picture.

        Each pixel of the picture takes the value at its centre.
        """
        rows = self._places(self.height, self.scale_y, self.offset_y, self.frame.height, maps.shape[1])
        columns = self._places(self.width, self.scale_x, self.offset_x, self.frame.width, maps.shape[2])
        return maps[:, rows[:, None], columns[None, :]]

    @staticmethod
    def _places(count: int, scale: float, offset: float, frame: int, size: int) -> Array:
        places = ((np.arange(count) + 0.5) * scale + offset) * (size / frame)
        return np.clip(places.astype(np.int64), 0, size - 1)

    def _arrays(self) -> tuple[Array, Array]:
        # float64: a round trip has to end where it started, for pictures of any size.
        return np.array((self.scale_x, self.scale_y)), np.array((self.offset_x, self.offset_y))

    def visible(self) -> tuple[float, float, float, float]:
        """The part of the picture that is in the frame: left, top, right, bottom."""
        left, top = self.to_picture(np.zeros(2))
        right, bottom = self.to_picture(np.array((self.frame.width, self.frame.height)))
        return (
            max(float(left), 0.0),
            max(float(top), 0.0),
            min(float(right), float(self.width)),
            min(float(bottom), float(self.height)),
        )

    def covered(self) -> tuple[int, int, int, int]:
        """The part of the frame that the picture covers, in whole pixels: left, top, right, bottom."""
        left, top = round(max(self.offset_x, 0.0)), round(max(self.offset_y, 0.0))
        right = min(round(self.offset_x + self.width * self.scale_x), self.frame.width)
        bottom = min(round(self.offset_y + self.height * self.scale_y), self.frame.height)
        return left, top, right, bottom


def place(width: int, height: int, frame: Frame, fit: str) -> Placement:
    """How a picture of this size goes into the frame."""
    if width < 1 or height < 1:
        raise ValueError(f"a picture of {width}x{height} pixels cannot be placed")
    if fit == "stretch":
        return Placement(width, height, frame, frame.width / width, frame.height / height, 0.0, 0.0)
    if fit == "letterbox":
        return _letterbox(width, height, frame)
    if fit == "crop":
        scale, *offsets = crop_offsets(width, height, frame.width, frame.height)
        return Placement(width, height, frame, scale, scale, *offsets)
    if fit == "line":
        inner = line_width(width, height, frame.width, frame.height)
        return Placement(width, height, frame, inner / width, frame.height / height, 0.0, 0.0)
    raise ValueError(f"fit={fit!r} is unknown; the choices are {', '.join(map(repr, FITS))}")


def _letterbox(width: int, height: int, frame: Frame) -> Placement:
    """The whole picture in the middle. Its scaled size is whole pixels, and the scale is that of these pixels."""
    left, top, inner_width, inner_height = letterbox_box(width, height, frame.width, frame.height)
    return Placement(width, height, frame, inner_width / width, inner_height / height, left, top)
