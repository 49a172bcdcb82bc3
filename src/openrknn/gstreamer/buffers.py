"""Video frames from the descriptors that an element sends."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from openrknn.errors import FormatError
from openrknn.gstreamer.wire import FORMATS, MOST_PLANES, MOST_REGIONS, RANGES, SPACES, STRUCTS
from openrknn.video import Plane, VideoFrame

__all__ = ["Mappings", "Region", "frame_of", "part_of"]

Region = tuple[int, int, int, int]
"""x, y, width, height"""
_MOST_MAPPED = 32
"""Pools of decoders have fewer buffers."""
# DMA_BUF_IOCTL_SYNC of linux/dma-buf.h: _IOW('b', 0, struct dma_buf_sync), whose only field is a u64 of flags.
_SYNC = 0x40086200
_BEGIN_READ, _END_READ = 1, 5


class Mappings:
    """Memory of descriptors, mapped once: a pool sends the same few buffers again and again.

    A buffer is known by its inode, which the mapping keeps from being given to another.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, int, int], mmap.mmap] = OrderedDict()

    def memory(self, descriptor: int) -> mmap.mmap:
        """The whole buffer, to read."""
        status = os.fstat(descriptor)
        size = status.st_size or os.lseek(descriptor, 0, os.SEEK_END)  # older kernels say 0 for a dma-buf
        key = status.st_dev, status.st_ino, size
        found = self._known.pop(key, None)
        if found is None:
            found = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ)
        self._known[key] = found
        while len(self._known) > _MOST_MAPPED:
            self._known.popitem(last=False)
        return found

    def clear(self) -> None:
        """Forget all; arrays that still show a buffer keep it."""
        self._known.clear()


def _synchronize(descriptor: int, flags: int) -> None:
    """The CPU begins or ends to read a dma-buf. Other memory has no such call and needs none."""
    try:
        fcntl.ioctl(descriptor, _SYNC, struct.pack("<Q", flags))
    except OSError:
        return


def frame_of(
    payload: memoryview, descriptors: Sequence[int], mappings: Mappings, number: int
) -> tuple[VideoFrame, list[Region]]:
    """The frame, and the regions that are asked for. `release` ends the access of the CPU; descriptors stay open."""
    head, plane, region = STRUCTS["frame"], STRUCTS["plane"], STRUCTS["region"]
    if len(payload) < head.size:
        raise FormatError("a frame is cut short")
    form, width, height, space, colours, planes, regions, copies = head.unpack_from(payload)
    if planes > MOST_PLANES or regions > MOST_REGIONS:
        raise FormatError(
            f"a frame with {planes} planes and {regions} regions; {MOST_PLANES} and {MOST_REGIONS} at most"
        )
    if len(payload) != head.size + planes * plane.size + regions * region.size:
        raise FormatError("a frame is cut short")
    if form >= len(FORMATS) or space >= len(SPACES) or colours >= len(RANGES):
        raise FormatError(f"a frame of unknown format {form}, colour space {space} or range {colours}")
    for descriptor in descriptors:
        _synchronize(descriptor, _BEGIN_READ)
    views = [np.frombuffer(mappings.memory(descriptor), np.uint8) for descriptor in descriptors]
    layout = []
    for at in range(planes):
        offset, stride, place = plane.unpack_from(payload, head.size + at * plane.size)
        if place >= len(views):
            raise FormatError(f"plane {at} is in descriptor {place}, and {len(views)} came with the frame")
        layout.append(Plane(offset, stride, descriptors[place], views[place]))
    start = head.size + planes * plane.size
    asked: list[Region] = [region.unpack_from(payload, start + at * region.size) for at in range(regions)]

    def release() -> None:
        for descriptor in descriptors:
            _synchronize(descriptor, _END_READ)

    frame = VideoFrame(
        FORMATS[form], width, height, layout,
        colour_space=SPACES[space], colour_range=RANGES[colours], number=number, copies=copies, release=release,
    )  # fmt: skip
    return frame, asked


def part_of(frame: VideoFrame, region: Region) -> tuple[VideoFrame, Region] | None:
    """A part of a frame as a frame, without a copy, and where it is: cut to the frame, on whole samples of chroma.

    None where nothing of the region is in the frame.
    """
    layouts = frame.format.planes
    across, down = max(one.horizontal for one in layouts), max(one.vertical for one in layouts)
    left, top = max(region[0], 0), max(region[1], 0)
    right, bottom = min(region[0] + region[2], frame.width), min(region[1] + region[3], frame.height)
    if right <= left or bottom <= top:
        return None
    left, top = left // across * across, top // down * down
    planes = [
        Plane(
            plane.offset + top // layout.vertical * plane.stride + left // layout.horizontal * layout.sample_bytes,
            plane.stride, plane.descriptor, plane.memory,
        )
        for plane, layout in zip(frame.planes, layouts, strict=True)
    ]  # fmt: skip
    part = VideoFrame(
        frame.format, right - left, bottom - top, planes,
        colour_space=frame.colour_space, colour_range=frame.colour_range, number=frame.number, copies=frame.copies,
    )  # fmt: skip
    return part, (left, top, right - left, bottom - top)
