"""Frames of a video in the place of pictures."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np

from openrknn.errors import RknnError
from openrknn.pictures import GRAY
from openrknn.pixels.formats import PixelFormat
from openrknn.runtime.binding import Binding
from openrknn.runtime.pool import SessionPool
from openrknn.runtime.session import Session
from openrknn.video.conversion import Conversion, boxes_for, convert
from openrknn.video.converters import Converter, open_converter
from openrknn.video.frame import Plane, VideoFrame
from openrknn.vision.heads import Array
from openrknn.vision.pictures import MIDDLE_GRAY, Pixels

__all__ = ["FrameImage", "FrameRunner", "FrameShape"]


class FrameImage:
    """A frame that becomes pixels only if somebody looks at them, for example to draw; then its memory is released."""

    def __init__(self, frame: VideoFrame) -> None:
        self.width, self.height = frame.width, frame.height
        self._frame: VideoFrame | None = frame
        self._pixels: Pixels | None = None
        self._lock = threading.Lock()

    def pixels(self) -> Pixels:
        """uint8 [height, width, 3], red first."""
        with self._lock:
            if self._pixels is None:
                assert self._frame is not None
                self._pixels = np.empty((self.height, self.width, 3), np.uint8)
                convert(self._frame, self._pixels)
                self._frame.release()
                self._frame = None
            return self._pixels


class FrameRunner:
    """Frames through the sessions of a pool: converted straight into the bound input, by RGA where there is one."""

    def __init__(self, pool: SessionPool, shape: FrameShape) -> None:
        self._pool, self._shape = pool, shape
        self._targets: dict[Session, tuple[Binding, VideoFrame | Pixels | None]] = {}
        self._converter: Converter | None = None
        self._lock = threading.Lock()

    def run(self, frame: VideoFrame) -> tuple[dict[str, Array], Conversion, tuple[float, float, float]]:
        """Outputs as they are stored, how the frame was converted, and when it began, was ready, and was computed."""
        shape = self._shape
        with self._pool.session() as session:
            started = time.perf_counter()
            bound, target = self._target(session)
            ready = target if target is not None else shape.empty()
            into = ready[0] if isinstance(ready, np.ndarray) else ready
            done = shape.convert(self._opened(), frame, into)
            prepared = time.perf_counter()
            if target is not None:
                bound.run()
                outputs = bound.read("raw")
            else:  # a model in float: what the pixels become is the session's business
                outputs = session.run({shape.name: ready}, layout="nhwc", outputs="raw")
            return outputs, done, (started, prepared, time.perf_counter())

    def _opened(self) -> Converter:
        with self._lock:
            if self._converter is None:
                self._converter = open_converter()
            return self._converter

    def _target(self, session: Session) -> tuple[Binding, VideoFrame | Pixels | None]:
        """The input's memory: as a frame with a descriptor, as an array, or None where it does not hold pixels."""
        found = self._targets.get(session)
        if found is None:
            bound = session.bind()
            view = bound.inputs[self._shape.name].view(np.ndarray)
            is_direct = view.dtype == np.uint8 and view.shape == (1, *self._shape.sizes)
            found = self._targets[session] = bound, self._exported(bound, view) if is_direct else None
        return found

    def _exported(self, bound: Binding, view: Pixels) -> VideoFrame | Pixels:
        if self._opened().name != "rga":
            return view
        try:
            piece = bound.dma_buf(self._shape.name)
        except (RknnError, OSError):
            return view  # this device exports no memory
        height, width, channels = self._shape.sizes
        stride = view.strides[1]
        size = (height - 1) * stride + width * channels
        memory = np.lib.stride_tricks.as_strided(view[0], (size,), (1,))
        return VideoFrame(self._shape.format, width, height, [Plane(piece.offset, stride, piece.fd, memory)])

    def close(self) -> None:
        """Close the converter; the sessions are the pool's."""
        with self._lock:
            if self._converter is not None:
                self._converter.close()
            self._converter = None
        self._targets.clear()


@dataclass(frozen=True)
class FrameShape:
    """What the input of a model wants."""

    name: str
    sizes: tuple[int, int, int]
    """Height, width, channels."""
    fit: str
    order: str

    @property
    def format(self) -> PixelFormat:
        """The format of the input as a frame."""
        names = {1: "GRAY", 3: self.order.upper(), 4: f"{self.order.upper()}A"}
        return PixelFormat[names[self.sizes[2]]]

    def empty(self) -> Pixels:
        """Room for one input."""
        return np.empty((1, *self.sizes), np.uint8)

    def convert(self, converter: Converter, frame: VideoFrame, target: VideoFrame | Pixels) -> Conversion:
        """Crop, scale and colours in one step."""
        height, width, _ = self.sizes
        crop, box = boxes_for(frame.width, frame.height, width, height, self.fit)
        fill = MIDDLE_GRAY if self.fit == "line" else GRAY
        return converter.convert(frame, target, crop=crop, place=box, fill=fill, order=self.order)
