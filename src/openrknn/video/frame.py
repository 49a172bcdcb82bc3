"""A video frame in memory: a descriptor with format, strides and offsets, not a copy of its pixels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn.pixels.formats import ColourRange, ColourSpace, PixelFormat
from openrknn.runtime.io.user_memory import DmaBuf
from openrknn.video.errors import FrameError

__all__ = ["MOST_PIXELS", "Bytes", "Plane", "VideoFrame"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

MOST_PIXELS = 64 * 1024 * 1024
"""Of one frame: as large as the largest picture (`openrknn.pictures`)."""


@dataclass(frozen=True, slots=True)
class Plane:
    """One plane: where it begins in its memory, and how far its rows are apart."""

    offset: int
    stride: int
    descriptor: int = -1
    """The dma-buf (or memfd) that holds it; -1 if it is only in memory of this process."""
    memory: Bytes | None = field(default=None, repr=False, compare=False)
    """The whole buffer as bytes, where it is mapped. `None`: only devices reach it."""


class VideoFrame:
    """One frame. `release` gives its memory back to the source; a `with` block does so at its end.

    The pixels belong to the source: a camera or decoder reuses them for a later frame after `release`.
    """

    def __init__(
        self,
        pixel_format: PixelFormat,
        width: int,
        height: int,
        planes: Sequence[Plane],
        *,
        colour_space: ColourSpace = ColourSpace.BT601,
        colour_range: ColourRange = ColourRange.LIMITED,
        time: float = 0.0,
        number: int = 0,
        copies: int = 0,
        release: Callable[[], None] | None = None,
    ) -> None:
        self.format = pixel_format
        self.width = width
        self.height = height
        self.planes = tuple(planes)
        self.colour_space = colour_space
        self.colour_range = colour_range
        self.time = time
        """Seconds since the source started."""
        self.number = number
        self.copies = copies
        """How often the CPU has copied or converted the whole frame since it was captured or decoded."""
        self._release = release
        self._check()

    def _check(self) -> None:
        name = self.format.name
        if not (self.width > 0 and self.height > 0 and self.width * self.height <= MOST_PIXELS):
            raise FrameError(f"a frame of {self.width}x{self.height} pixels: it needs 1 to {MOST_PIXELS} pixels")
        layouts = self.format.planes
        if len(self.planes) != len(layouts):
            raise FrameError(f"{name} has {len(layouts)} planes, and {len(self.planes)} were given")
        for number, (plane, layout) in enumerate(zip(self.planes, layouts, strict=True)):
            needed = layout.row_bytes(self.width)
            if plane.stride < needed:
                raise FrameError(
                    f"plane {number} of {name} {self.width}x{self.height}: the stride is {plane.stride} bytes, a row "
                    f"has {needed}"
                )
            if plane.offset < 0:
                raise FrameError(f"plane {number} of {name}: the offset is {plane.offset}")
            end = plane.offset + (layout.rows(self.height) - 1) * plane.stride + needed
            if plane.memory is not None and end > plane.memory.size:
                raise FrameError(
                    f"plane {number} of {name} {self.width}x{self.height} ends at byte {end}, its buffer at "
                    f"{plane.memory.size}"
                )
            if plane.memory is None and plane.descriptor < 0:
                raise FrameError(f"plane {number} of {name} has neither memory nor a descriptor")

    def rows(self, number: int) -> Bytes:
        """A plane as bytes [rows, bytes of a row], without a copy."""
        plane, layout = self.planes[number], self.format.planes[number]
        if plane.memory is None:
            raise FrameError(f"plane {number} of {self.format.name} is not mapped: only devices reach it")
        shape = (layout.rows(self.height), layout.row_bytes(self.width))
        return np.lib.stride_tricks.as_strided(plane.memory[plane.offset :], shape, (plane.stride, 1))

    def as_dma_buf(self) -> tuple[DmaBuf, int]:
        """What `Session.bind` takes: the dma-buf of pixels that need no conversion, and how many channels they have."""
        plane, layout = self.planes[0], self.format.planes[0]
        if self.format.is_yuv:
            raise FrameError(f"the NPU reads no {self.format.name}; convert the frame (openrknn.video.convert)")
        if plane.descriptor < 0:
            raise FrameError("the frame is in ordinary memory; only dma-bufs are bound as they are")
        return DmaBuf(plane.descriptor, offset=plane.offset, stride=plane.stride), layout.sample_bytes

    def release(self) -> None:
        """Give the memory back to the source. Releasing twice is allowed."""
        release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        """A frame that no program holds any more is released, too."""
        with contextlib.suppress(Exception):  # also one that was refused while it was made, or at the very end
            self.release()

    def __enter__(self) -> VideoFrame:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<VideoFrame {self.number} {self.format.name} {self.width}x{self.height} at {self.time:.3f} s>"

    @classmethod
    def of_bytes(
        cls,
        pixel_format: PixelFormat,
        width: int,
        height: int,
        memory: Bytes,
        *,
        strides: Sequence[int] | None = None,
        descriptor: int = -1,
        **details: Any,
    ) -> VideoFrame:
        """A frame whose planes follow each other in one buffer, rows padded to `strides` (unpadded if not given)."""
        layouts = pixel_format.planes
        chosen = [layout.row_bytes(width) for layout in layouts] if strides is None else list(strides)
        if len(chosen) != len(layouts):
            raise FrameError(f"{pixel_format.name} has {len(layouts)} planes, and {len(chosen)} strides were given")
        planes, offset = [], 0
        for layout, stride in zip(layouts, chosen, strict=True):
            planes.append(Plane(offset, stride, descriptor, memory))
            offset += layout.rows(height) * stride
        return cls(pixel_format, width, height, planes, **details)
