"""Who converts: RGA where there is one and it can, else the CPU. The result says who it was, and why."""

from __future__ import annotations

from typing import Protocol

from openrknn.errors import DeviceError
from openrknn.pixels.convert import Box, Fill
from openrknn.video.conversion import Conversion, convert
from openrknn.video.errors import VideoError
from openrknn.video.frame import Bytes, VideoFrame
from openrknn.video.rga import Rga
from openrknn.video.rga_requests import NotForRgaError

__all__ = ["CONVERTERS", "Converter", "open_converter"]

CONVERTERS = ("auto", "rga", "cpu")


class Converter(Protocol):
    """Converts frames to the pixels of a model's input."""

    @property
    def name(self) -> str:
        """ "rga" or "cpu"."""

    def convert(
        self, frame: VideoFrame, target: Bytes | VideoFrame, *,
        crop: Box | None = None, place: Box | None = None, fill: Fill = 114, order: str = "rgb",
    ) -> Conversion:  # fmt: skip
        """As `openrknn.video.convert`."""

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""


class CpuConverter:
    """The native kernel, or NumPy where it is not installed."""

    name = "cpu"

    def __init__(self, note: str = "") -> None:
        self.note = note
        """Why there is no RGA."""

    def convert(
        self, frame: VideoFrame, target: Bytes | VideoFrame, *,
        crop: Box | None = None, place: Box | None = None, fill: Fill = 114, order: str = "rgb",
    ) -> Conversion:  # fmt: skip
        done = convert(frame, target, crop=crop, place=place, fill=fill, order=order)
        return Conversion(done.converter, done.copies, done.total, self.note)

    def close(self) -> None:
        """Nothing to give back."""


class RgaConverter:
    """RGA for dma-bufs; with `falls_back` the CPU for everything that RGA cannot do."""

    name = "rga"

    def __init__(self, device: Rga, *, falls_back: bool) -> None:
        self._device, self._falls_back = device, falls_back

    def convert(
        self, frame: VideoFrame, target: Bytes | VideoFrame, *,
        crop: Box | None = None, place: Box | None = None, fill: Fill = 114, order: str = "rgb",
    ) -> Conversion:  # fmt: skip
        if isinstance(target, VideoFrame):
            why = self._device.refusal(frame, target, crop, place)
            try:
                if not why:
                    return self._device.convert(frame, target, crop=crop, place=place, fill=fill)
            except NotForRgaError as error:  # the driver knows more: memory that it cannot import or reach
                why = str(error)
        else:
            why = "the target is an array, and RGA takes dma-bufs (give a VideoFrame with a descriptor)"
        if not self._falls_back:
            raise VideoError(f"RGA cannot convert this: {why}")
        done = convert(frame, target, crop=crop, place=place, fill=fill, order=order)
        return Conversion(done.converter, done.copies, done.total, f"not by RGA: {why}")

    def close(self) -> None:
        self._device.close()


def open_converter(name: str = "auto") -> Converter:
    """ "rga": refuses what RGA cannot do; "cpu"; "auto": RGA if /dev/rga can be opened, and the CPU for the rest."""
    if name not in CONVERTERS:
        raise ValueError(f"no converter is called {name!r}; there are {', '.join(CONVERTERS)}")
    if name == "cpu":
        return CpuConverter()
    try:
        return RgaConverter(Rga(), falls_back=name == "auto")
    except DeviceError as error:
        if name == "rga":
            raise VideoError(f"there is no RGA: {error}") from None
        return CpuConverter(f"not by RGA: {error}")
