"""How the element and its engine talk: packets of a Unix socket pair (SOCK_SEQPACKET), a request and its reply.

A packet is a header, a payload, and descriptors beside it (SCM_RIGHTS). Pixels are never in a packet: they are in
dma-bufs or memfds whose descriptors come with the request. A reply that is larger than a packet is in a memfd.
`native/gstreamer/protocol.h` is generated from these tables (`python -m tools.gstreamer_header`).
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from types import MappingProxyType

from openrknn.video import ColourRange, ColourSpace, PixelFormat

__all__ = [
    "ENGINE_NAME", "ENGINE_VARIABLE", "FIELDS", "FORMATS", "LARGEST_PACKET", "MOST_DESCRIPTORS", "MOST_PLANES",
    "MOST_REGIONS", "RANGES", "SPACES", "STRUCTS", "WIRE_VERSION", "Kind", "Operation",
]  # fmt: skip

ENGINE_NAME = "openrknn-gst-engine"
ENGINE_VARIABLE = "OPENRKNN_GST_ENGINE"
"""The program that is started as the engine, if not the one of the installation that built the plugin."""
LARGEST_PACKET = 128 * 1024
"""Below the default of net.core.wmem_default (208 KiB)."""
MOST_PLANES = 4
MOST_DESCRIPTORS = 4
MOST_REGIONS = 256
"""Of one frame, for a model that looks at the regions that another has found."""

FORMATS = tuple(PixelFormat)
SPACES = tuple(ColourSpace)
RANGES = tuple(ColourRange)
"""A format, space or range is sent as its place in these."""


class Operation(IntEnum):
    """What a request asks for."""

    OPEN = 1
    """Payload: NAME=VALUE texts, each ended by a zero byte -> payload: a summary and notes, one line each."""
    FRAME = 2
    """Payload: frame, its planes, its regions; descriptors -> payload: records."""


class Kind(IntEnum):
    """What a record of a reply is."""

    OBJECT = 0
    """Something with a box."""
    CLASS = 1
    """A class of the whole frame or region, the most probable first."""
    AREAS = 2
    """A class for every pixel, in the mask. The text has the names of the classes, one line each."""
    TEXT = 3
    """What the frame or region says."""
    NOTE = 4
    """What is strange about the results, in words: the text."""


_RECORD = (
    ("uint32_t", "bytes"), ("uint32_t", "kind"), ("int32_t", "region"), ("int32_t", "number"),
    ("float", "score"), ("float", "left"), ("float", "top"), ("float", "right"), ("float", "bottom"),
    ("uint32_t", "label_bytes"), ("uint32_t", "text_bytes"), ("uint32_t", "keypoints"), ("uint32_t", "corners"),
    ("int32_t", "mask_left"), ("int32_t", "mask_top"), ("uint32_t", "mask_width"), ("uint32_t", "mask_height"),
)  # fmt: skip
FIELDS = MappingProxyType({
    "request": (("uint32_t", "version"), ("uint32_t", "operation"), ("uint64_t", "number"),
                ("uint32_t", "payload_bytes"), ("uint32_t", "descriptors")),
    "reply": (("int32_t", "code"), ("uint32_t", "in_descriptor"), ("uint64_t", "number"),
              ("uint64_t", "payload_bytes")),
    "frame": (("uint32_t", "format"), ("uint32_t", "width"), ("uint32_t", "height"), ("uint32_t", "colour_space"),
              ("uint32_t", "colour_range"), ("uint32_t", "planes"), ("uint32_t", "regions"), ("uint32_t", "copies")),
    "plane": (("uint64_t", "offset"), ("uint32_t", "stride"), ("uint32_t", "descriptor")),
    "region": tuple(("int32_t", name) for name in ("x", "y", "width", "height")),
    "record": _RECORD,
})  # fmt: skip
"""The structs as C has them. A record is followed by label, text, 3 floats per keypoint (x, y, how visible), 2 per
corner, and the mask (a byte per pixel), and filled with zeros to a multiple of 4 bytes; `bytes` counts all of that.
`region` is the number of the region of the request, -1: the whole frame. Coordinates are pixels of the frame."""

_CODES = {"uint32_t": "I", "int32_t": "i", "uint64_t": "Q", "float": "f"}
STRUCTS = MappingProxyType(
    {name: struct.Struct("<" + "".join(_CODES[kind] for kind, _ in fields)) for name, fields in FIELDS.items()}
)


def _version() -> int:
    known = [FIELDS[name] for name in sorted(FIELDS)], list(Operation), list(Kind), FORMATS, SPACES, RANGES
    return zlib.crc32(repr(known).encode())


WIRE_VERSION = _version()
"""Part of every request: a plugin of another version gets an error."""
