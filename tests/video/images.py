"""Random frames with padded rows, and what other code makes of them."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from openrknn.video import ColourRange, ColourSpace, PixelFormat, VideoFrame

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def random_frame(
    random: np.random.Generator, pixel_format: PixelFormat, width: int, height: int, **details: Any
) -> VideoFrame:
    """Noise, with rows that are padded by 0 to 40 bytes."""
    strides = [layout.row_bytes(width) + int(random.integers(0, 41)) for layout in pixel_format.planes]
    if pixel_format is PixelFormat.I420:
        strides[2] = strides[1]
    size = sum(layout.rows(height) * stride for layout, stride in zip(pixel_format.planes, strides, strict=True))
    memory = random.integers(0, 256, size, np.uint8)
    return VideoFrame.of_bytes(pixel_format, width, height, memory, strides=strides, **details)


_KR_KB = {ColourSpace.BT601: (0.299, 0.114), ColourSpace.BT709: (0.2126, 0.0722), ColourSpace.BT2020: (0.2627, 0.0593)}


def float_pixels(frame: VideoFrame) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Red, green and blue of every pixel, 0 to 255, as the standards' formulas have them."""
    rows = [frame.rows(number).astype(np.float64) for number in range(len(frame.planes))]
    height, width = frame.height, frame.width
    if not frame.format.is_yuv:
        name = frame.format.name
        if name == "GRAY":
            return np.repeat(rows[0][:, :, None], 3, axis=2)
        colours = rows[0].reshape(height, width, len(name))
        return np.stack([colours[:, :, name.index(letter)] for letter in "RGB"], axis=2)
    y, u, v = _planes(frame, rows)
    red, blue = _KR_KB[frame.colour_space]
    if frame.colour_range is ColourRange.LIMITED:
        y, u, v = np.maximum(y - 16, 0) * 255 / 219, (u - 128) * 255 / 224, (v - 128) * 255 / 224
    else:
        u, v = u - 128, v - 128
    r = y + 2 * (1 - red) * v
    b = y + 2 * (1 - blue) * u
    g = (y - red * r - blue * b) / (1 - red - blue)
    return np.asarray(np.clip(np.stack([r, g, b], axis=2), 0, 255), np.float64)


def _planes(frame: VideoFrame, rows: list[Any]) -> tuple[Any, Any, Any]:
    height, width = frame.height, frame.width
    name = frame.format.name
    if name in ("YUYV", "UYVY"):
        four = rows[0].reshape(height, -1, 4)
        places = [name.index("Y"), name.index("U"), name.index("Y", 2), name.index("V")]
        y = four[:, :, [places[0], places[2]]].reshape(height, -1)[:, :width]
        return y, *(np.repeat(four[:, :, place], 2, axis=1)[:, :width] for place in (places[1], places[3]))
    if name == "I420":
        u, v = rows[1], rows[2]
    else:
        u, v = rows[1][:, 0::2], rows[1][:, 1::2]
        u, v = (v, u) if name == "NV21" else (u, v)
    spread = [np.repeat(np.repeat(part, 2, axis=0), 2, axis=1)[:height, :width] for part in (u, v)]
    return rows[0], spread[0], spread[1]


def float_scaled(pixels: Any, width: int, height: int) -> Any:
    """Bilinear between centres of pixels, edges repeated, in double precision."""
    for axis, size in ((0, height), (1, width)):
        length = pixels.shape[axis]
        places = np.clip((np.arange(size) + 0.5) * length / size - 0.5, 0, length - 1)
        first = np.minimum(places.astype(int), max(length - 2, 0))
        second = np.minimum(first + 1, length - 1)
        shape = [1, 1, 1]
        shape[axis] = size
        weight = (places - first).reshape(shape)
        pixels = np.take(pixels, first, axis) * (1 - weight) + np.take(pixels, second, axis) * weight
    return pixels


def dma_frame(
    pixel_format: PixelFormat, width: int, height: int, stride: int, random: Any = None, **details: Any
) -> VideoFrame:
    """A frame in a memfd, which stands for a dma-buf: rows of luma or pixels `stride` bytes apart, chroma likewise."""
    strides = [stride // (2 if pixel_format is PixelFormat.I420 and number else 1)
               for number in range(len(pixel_format.planes))]  # fmt: skip
    size = sum(layout.rows(height) * step for layout, step in zip(pixel_format.planes, strides, strict=True))
    descriptor = os.memfd_create("frame", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, -(-size // 4096) * 4096)
    memory = np.frombuffer(mmap.mmap(descriptor, 0), np.uint8)
    if random is not None:
        memory[:size] = random.integers(0, 256, size, np.uint8)
    return VideoFrame.of_bytes(
        pixel_format, width, height, memory, strides=strides, descriptor=descriptor, **details,
        release=lambda: os.close(descriptor),
    )  # fmt: skip
