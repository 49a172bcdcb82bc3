"""One task of RGA on memory: which core takes it, where its images lie, and their conversion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openrknn import pixels
from openrknn.fakekernel.load import LoadMeter
from openrknn.fakekernel.log import LOG
from openrknn.pixels.formats import ColourRange, ColourSpace, PixelFormat
from openrknn.uapi import rga
from openrknn.uapi.rga_cores import Core, Picture, bits_per_pixel, refusal

__all__ = ["Bytes", "run_task"]

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_FORMATS = {kind: PixelFormat[kind.name] for kind in rga.Format}
_MATRICES = {
    0: (ColourSpace.BT601, ColourRange.LIMITED),
    rga.Matrix.BT601_LIMITED: (ColourSpace.BT601, ColourRange.LIMITED),
    rga.Matrix.BT601_FULL: (ColourSpace.BT601, ColourRange.FULL),
    rga.Matrix.BT709_LIMITED: (ColourSpace.BT709, ColourRange.LIMITED),
}
_CHANNELS = {rga.Format.RGB: (3, "rgb"), rga.Format.BGR: (3, "bgr"), rga.Format.RGBA: (4, "rgb"),
             rga.Format.BGRA: (4, "bgr"), rga.Format.GRAY: (1, "rgb")}  # fmt: skip
_USED = frozenset((
    "render_mode", "fg_color", "yuv2rgb_mode", "core", "priority", "handle_flag", "cosa", "scale_mode", "mmu_en",
    "in_fence_fd", "out_fence_fd", "clip0", "clip1", "clip2", "clip3",
))  # fmt: skip
"""Fields that may have a value, beside those of the two images: blending, keys, rotation and the like are refused."""
_USED_OF_IMAGES = (
    "yrgb_addr", "uv_addr", "v_addr", "format", "act_w", "act_h", "x_offset", "y_offset", "vir_w", "vir_h", "rd_mode",
    "enable",
)  # fmt: skip


class _RefusedError(Exception):
    """What the driver writes into its log."""


def run_task(
    task: Mapping[str, int], memories: Mapping[int, Bytes], cores: Sequence[Core], meters: Sequence[LoadMeter]
) -> bool:
    """Do it; False, with the reason in the log, if it cannot be done."""
    try:
        number = _core_for(task, cores)
        meters[number].begin()
        try:
            _fill(task, memories) if task["render_mode"] == rga.FILL else _convert(task, memories)
        finally:
            meters[number].end()
    except _RefusedError as error:
        LOG.warning("rga: %s", error)
        return False
    return True


def _core_for(task: Mapping[str, int], cores: Sequence[Core]) -> int:
    if task["render_mode"] not in (rga.BLT, rga.FILL):
        raise _RefusedError(f"render mode {task['render_mode']} is not emulated")
    allowed = _USED | {f"{image}_{name}" for image in ("src", "dst") for name in _USED_OF_IMAGES}
    others = sorted(name for name, value in task.items() if value and name not in allowed)
    if others:
        raise _RefusedError(f"what {', '.join(others)} ask for is not emulated")
    source = None if task["render_mode"] == rga.FILL else _picture(task, "src")
    target = _picture(task, "dst")
    reasons = []
    for number, core in enumerate(cores):
        if task["core"] and not core.bit & task["core"]:
            continue
        if not (why := refusal(core, source, target)):
            return number
        reasons.append(why)
    raise _RefusedError("no core can do it: " + "; ".join(reasons or ["the mask of cores names none that is there"]))


def _picture(task: Mapping[str, int], name: str) -> Picture:
    if task[f"{name}_rd_mode"] not in (0, rga.RASTER):
        raise _RefusedError("tiled and compressed images are not emulated")
    fields = ("format", "x_offset", "y_offset", "act_w", "act_h", "vir_w", "vir_h")
    return Picture(*(task[f"{name}_{field}"] for field in fields))


def _planes(task: Mapping[str, int], name: str, memories: Mapping[int, Bytes]) -> tuple[PixelFormat, list[Bytes]]:
    """The rows of each plane of the whole image: one behind the other in one buffer, or each in its own."""
    picture = _picture(task, name)
    pixel_format = _FORMATS[rga.Format(picture.format)]
    addresses = [task[f"{name}_{plane}"] for plane in ("yrgb_addr", "uv_addr", "v_addr")]
    own_buffers = addresses[1] != 0
    planes, at = [], 0
    stride = picture.virtual_width * bits_per_pixel(picture.format) // 8
    for number, layout in enumerate(pixel_format.planes):
        row_bytes = layout.row_bytes(picture.virtual_width)
        rows = layout.rows(picture.virtual_height)
        own_stride = stride if number == 0 else row_bytes
        memory = memories.get(addresses[number] if own_buffers else addresses[0])
        at = 0 if own_buffers else at
        if memory is None or at + (rows - 1) * own_stride + row_bytes > memory.size:
            raise _RefusedError(f"plane {number} of the {name} image is not inside of its buffer")
        planes.append(np.lib.stride_tricks.as_strided(memory[at:], (rows, row_bytes), (own_stride, 1)))
        at += rows * own_stride
    return pixel_format, planes


def _target(task: Mapping[str, int], memories: Mapping[int, Bytes]) -> tuple[Bytes, str]:
    picture = _picture(task, "dst")
    if picture.format not in _CHANNELS:
        raise _RefusedError(f"a target of format {picture.format:#x} is not emulated")
    _, (rows,) = _planes(task, "dst", memories)
    channels, order = _CHANNELS[rga.Format(picture.format)]
    shape = (picture.virtual_height, picture.virtual_width, channels)
    view = np.lib.stride_tricks.as_strided(rows, shape, (rows.strides[0], channels, 1))
    bottom, right = picture.top + picture.height, picture.left + picture.width
    return view[picture.top : bottom, picture.left : right], order


def _convert(task: Mapping[str, int], memories: Mapping[int, Bytes]) -> None:
    picture = _picture(task, "src")
    if task["yuv2rgb_mode"] not in _MATRICES:
        raise _RefusedError(f"yuv2rgb_mode {task['yuv2rgb_mode']:#x} is not emulated")
    space, values = _MATRICES[task["yuv2rgb_mode"]]
    pixel_format, planes = _planes(task, "src", memories)
    image = pixels.Image(pixel_format, picture.virtual_width, picture.virtual_height, tuple(planes), space, values)
    target, order = _target(task, memories)
    crop = (picture.left, picture.top, picture.left + picture.width, picture.top + picture.height)
    pixels.convert(image, target, crop=crop, order=order)


def _fill(task: Mapping[str, int], memories: Mapping[int, Bytes]) -> None:
    target, order = _target(task, memories)
    colour = task["fg_color"]
    values = [colour & 255, colour >> 8 & 255, colour >> 16 & 255]
    ordered = values[::-1] if order == "bgr" else values
    channels = target.shape[2]
    target[...] = np.array([*ordered, colour >> 24][:channels] if channels > 1 else [values[0]], np.uint8)
