"""Memory that users bring: dma-bufs of cameras and decoders, and plain arrays."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from openrknn.records import dataclass


@dataclass(frozen=True, slots=True)
class DmaBuf:
    """A piece of a dma-buf, or of anything else that can be mapped. The descriptor stays the user's."""

    fd: int
    size_bytes: int | None = None
    """None: up to its end."""
    offset: int = 0
    stride: int | None = None
    """Bytes from row to row of an image; they have to be what the NPU reads. None: it is known that they are."""

    def length(self) -> int:
        """How many bytes are used."""
        total = os.lseek(self.fd, 0, os.SEEK_END)  # how a dma-buf reports its size; OSError if it is none
        room = total - self.offset
        wanted = room if self.size_bytes is None else self.size_bytes
        if self.offset < 0 or not 0 < wanted <= room:
            raise ValueError(f"descriptor {self.fd} has {total} bytes; {wanted} from {self.offset} on are wanted")
        return wanted


class Framed(Protocol):
    """A video frame in one dma-buf: `openrknn.video.VideoFrame`."""

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...

    def as_dma_buf(self) -> tuple[DmaBuf, int]:
        """Where it is, and how many channels its pixels have; an error if that is not one plane of pixels."""


def without_frames(places: Mapping[str, object], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, object]:
    """The dma-bufs of frames, after checking that their size is the input's ([N, H, W, C])."""
    return {name: _without_frame(value, name, shapes.get(name, ())) for name, value in places.items()}


def _without_frame(value: object, name: str, shape: tuple[int, ...]) -> object:
    if not hasattr(value, "as_dma_buf"):
        return value
    frame = cast("Framed", value)
    piece, channels = frame.as_dma_buf()
    if shape != (1, frame.height, frame.width, channels):
        raise ValueError(
            f"{name!r}: a frame of {frame.width}x{frame.height} pixels with {channels} channels was given, and the "
            f"input is {list(shape)} in memory [N, H, W, C]; convert the frame (openrknn.video.convert) instead"
        )
    return piece


def check_stride(memory: DmaBuf, name: str, row_bytes: int | None) -> None:
    """The NPU reads rows at one distance, which is in the model's commands."""
    if memory.stride is None or memory.stride == row_bytes:
        return
    if row_bytes is None:
        raise ValueError(f"{name!r} is no image with rows, and a stride of {memory.stride} bytes was given")
    raise ValueError(
        f"{name!r}: the rows of this memory are {memory.stride} bytes apart, and the NPU reads rows of {row_bytes}; "
        f"have the frame allocated with a stride of {row_bytes}, or convert it (openrknn.video.convert)"
    )


def mapped(piece: DmaBuf) -> npt.NDArray[np.uint8]:
    """The memory of a dma-buf; it stays mapped while the array lives."""
    size = piece.length()
    return np.frombuffer(mmap.mmap(piece.fd, piece.offset + size), np.uint8)[piece.offset :]


def as_bytes(memory: object, name: str, needed: int, dtype: np.dtype[Any]) -> npt.NDArray[np.uint8]:
    """A dma-buf or a user's array as writable bytes, at least `needed` of them.

    Nothing converts what is in there, so an array has the tensor's own type, or is bytes.
    """
    if isinstance(memory, DmaBuf):
        view = mapped(memory)
    elif isinstance(memory, np.ndarray):
        if not memory.flags.c_contiguous or not memory.flags.writeable:
            raise ValueError(f"{name!r}: the array must be contiguous and writable")
        if memory.dtype not in (dtype, np.uint8):
            raise TypeError(
                f"{name!r}: bound memory is used as it is, so the array has to be {dtype} or uint8 (bytes), not "
                f"{memory.dtype}; `run` converts"
            )
        view = memory.reshape(-1).view(np.uint8)
    else:
        raise TypeError(f"{name!r}: memory is a DmaBuf or a NumPy array, not {type(memory).__name__}")
    if view.nbytes < needed:
        raise ValueError(f"{name!r} needs {needed} bytes of memory, this has {view.nbytes}")
    return view
