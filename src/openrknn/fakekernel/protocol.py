"""What the preload library and the server say to each other, over a stream socket.

A request is `REQUEST`, then `length` bytes; a reply is `REPLY`, then `length` bytes. A descriptor travels beside
either of them (SCM_RIGHTS). A connection carries one request at a time; the library opens as many as it has threads
inside calls. The C header with these numbers is generated (`c_header`).

The payload of an ioctl is the argument's bytes, then for each pointer that the program hands in, depth first, a
32-bit length and the bytes. The reply holds the argument again, then for each pointer that the kernel fills a 32-bit
length and the bytes.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from openrknn.uapi import emulated
from openrknn.uapi.layout import Field, Struct

__all__ = [
    "BUFFER_KEY", "CLOSE_ON_EXEC", "ENVIRONMENT", "HEADERS", "KIND_BITS", "LENGTH", "LLM_NAME", "MAX_PAYLOAD", "NARROW",
    "NO_KIND", "OLD_ENVIRONMENT", "OPEN_ENVIRONMENT", "OPEN_NAMES", "REPLY", "REQUEST", "SPY_ENVIRONMENT", "TAKE_BYTE",
    "Op",
]  # fmt: skip

ENVIRONMENT = emulated.VARIABLE
OLD_ENVIRONMENT = "OPENRKNN_DEVICE"
"""Its former name, obeyed where the value is a path; any other value chooses a device (`openrknn.device.automatic`)."""
SPY_ENVIRONMENT = "OPENRKNN_SPY"
"""Names the folder of the recorder to the spy library."""
OPEN_ENVIRONMENT = "OPENRKNN_OPEN"
"""Names a folder with a library under each of `OPEN_NAMES`: dlopen takes it, whatever path a program has for it."""
LLM_NAME = "librkllmrt.so"
"""The library for language models; the other names are two of one library."""
OPEN_NAMES = ("librknnrt.so", "librknnmrt.so", LLM_NAME)
_REQUEST = Struct(
    "request_header",
    (
        Field("op", note="what is asked for (`Op`)"),
        Field("length", note="bytes that follow"),
        Field("file", "u64", "inode number of the file"),
        Field("a", "u64"),
        Field("b", "u64"),
    ),
)
_REPLY = Struct(
    "reply_header",
    (Field("result", "s32", "negative: errno"), Field("length", note="bytes that follow"), Field("value", "u64")),
)
HEADERS = (_REQUEST, _REPLY)
"""What the generated C header declares, too."""
REQUEST, REPLY = _REQUEST.codec, _REPLY.codec
LENGTH = struct.Struct("<I")
MAX_PAYLOAD = 64 << 20
"""No honest request is larger."""


class Op(IntEnum):
    """What is asked for. A file is named by the inode number of its socket, which forks and copies share."""

    OPEN = 1
    """a: number of the node, b: flags of open(2). The reply has the descriptor; value: kind | node << KIND_BITS."""
    IOCTL = 2
    """a: the request code, b: bytes of a pointer in the program. The payload is described above."""
    MMAP = 3
    """a: offset, b: length. The reply has a descriptor to map instead; value: the offset to use, with `NOT_INHERITED`
    if children shall not have the map."""
    KIND = 4
    """Is this socket an emulated file? The result is 0 and the value as for OPEN, or the result is -ENOENT."""

    # Those of the spy library, which tells a recorder what a program asks of the real kernel.
    SPY_HAND = 5
    """A descriptor that the next ioctl hands in comes with it. The reply's value names it."""
    SPY_BEFORE = 6
    """An ioctl is about to be made. file: what SPY_HAND said, or 0; a: the request code; b: the kind of file,
    and from KIND_BITS on the bytes of a pointer in the program. The payload is as for IOCTL, the descriptor is the
    program's. The reply's value names the call."""
    SPY_AFTER = 7
    """It was made. file: what SPY_BEFORE said; a: result or -errno; b: nanoseconds. The payload is the argument; a
    descriptor that the kernel opened comes with it."""
    SPY_MAP = 8
    """A mapping was made. file: the kind of file; a: offset; b: length. The descriptor is the program's."""
    SPY_CLOSE = 9
    """A descriptor of a device was closed; perhaps there are copies of it."""


NOT_INHERITED = 1
"""Offsets are whole pages, so the lowest bit is free."""
CLOSE_ON_EXEC = 1
"""In the value of an ioctl's reply: of the descriptor that comes with it."""
TAKE_BYTE = 2
"""Also there: the library takes a byte out of the file's socket. The server sends one for each thing that is ready, so
that poll(2) sees whether something is left."""
KIND_BITS = 8
NO_KIND = 0xFF
"""An ordinary file: there is nothing to forward."""
NARROW = 4
"""Bytes of a pointer in programs of 32-bit machines."""
BUFFER_KEY = 1 << 63
"""In `file`: the inode number is that of a buffer (a dma-buf), not of a socket."""
