"""The requests that every DRM device supports, independent of the driver.

Facts: include/uapi/drm/drm.h; permissions: drivers/gpu/drm/drm_ioctl.c of Linux 6.1.
"""

from __future__ import annotations

from openrknn.uapi.ioctl import READ, WRITE, Array, Descriptor, Ioctl
from openrknn.uapi.layout import Field, Struct

__all__ = [
    "CAP_DUMB_BUFFER", "CAP_PRIME", "CAP_SYNCOBJ", "CAP_SYNCOBJ_TIMELINE", "CAP_TIMESTAMP_MONOTONIC", "CLOEXEC",
    "COMMAND_BASE", "DUMB_BUFFERS", "GEM_CLOSE", "GEM_FLINK", "GEM_OPEN", "GET_CAP", "GET_MAGIC", "GET_UNIQUE",
    "IOCTLS", "LAST_OF_DISPLAYS", "MAGIC", "MAP_DUMB", "MMAP_BASE", "NEED_MASTER", "OF_DISPLAYS",
    "PRIME_CAP_EXPORT", "PRIME_CAP_IMPORT", "PRIME_FD_TO_HANDLE", "PRIME_HANDLE_TO_FD", "RDWR", "RENDER_ALLOWED",
    "SET_CLIENT_CAP", "SET_VERSION", "SYNC_OBJECTS", "VERSION", "WITHOUT_EFFECT",
]  # fmt: skip

MAGIC = "d"
COMMAND_BASE = 0x40
"""The numbers of a driver's own ioctls start here."""
MMAP_BASE = 0x1_0000_0000
"""The first offset that stands for a buffer in mmap (DRM_FILE_PAGE_OFFSET_START)."""

CAP_DUMB_BUFFER = 0x1
CAP_PRIME = 0x5
CAP_TIMESTAMP_MONOTONIC = 0x6
CAP_SYNCOBJ = 0x13
CAP_SYNCOBJ_TIMELINE = 0x14
PRIME_CAP_IMPORT = 1
PRIME_CAP_EXPORT = 2
NEED_MASTER = frozenset({
    0xA2, 0xA3, 0xA5, 0xA8, 0xA9, 0xAB, 0xB0, 0xB1, 0xB7, 0xBA, 0xBB, 0xBC, 0xC6, 0xC7, 0xC8, 0xC9,
})  # fmt: skip
"""Numbers of requests of displays that only the master of a device may make."""
DUMB_BUFFERS = frozenset({0xB2, 0xB3, 0xB4})
OF_DISPLAYS = frozenset({*range(0xA0, 0xCE), 0xCF, 0xD0})
"""All requests of displays, and of sync objects, which are among them."""
SYNC_OBJECTS = frozenset({*range(0xBF, 0xC6), *range(0xCA, 0xCE), 0xCF})
"""Those that render nodes allow too."""
WITHOUT_EFFECT = frozenset({0xA8, 0xA9})
"""ATTACHMODE and DETACHMODE: the core answers 0 for every driver."""
MAP_DUMB = 0xB3
LAST_OF_DISPLAYS = 0xD0
CLOEXEC = 0o2000000
RDWR = 0o2

VERSION = Ioctl(
    "VERSION", MAGIC, 0x00,
    Struct("drm_version", (
        Field("version_major", "s32"), Field("version_minor", "s32"), Field("version_patchlevel", "s32"),
        Field("name_len", "word"), Field("name", "word"),
        Field("date_len", "word"), Field("date", "word"),
        Field("desc_len", "word"), Field("desc", "word"),
    )),
    arrays=(
        Array("name", "name_len", 1, out=True),
        Array("date", "date_len", 1, out=True),
        Array("desc", "desc_len", 1, out=True),
    ),
)  # fmt: skip
GET_UNIQUE = Ioctl(
    "GET_UNIQUE", MAGIC, 0x01,
    Struct("drm_unique", (Field("unique_len", "word"), Field("unique", "word"))),
    arrays=(Array("unique", "unique_len", 1, out=True),),
)  # fmt: skip
GET_MAGIC = Ioctl("GET_MAGIC", MAGIC, 0x02, Struct("drm_auth", (Field("magic"),)), READ)
SET_VERSION = Ioctl(
    "SET_VERSION", MAGIC, 0x07,
    Struct("drm_set_version", (
        Field("drm_di_major", "s32"), Field("drm_di_minor", "s32"),
        Field("drm_dd_major", "s32"), Field("drm_dd_minor", "s32"),
    )),
)  # fmt: skip
GEM_CLOSE = Ioctl("GEM_CLOSE", MAGIC, 0x09, Struct("drm_gem_close", (Field("handle"), Field("pad"))), WRITE)
GEM_FLINK = Ioctl("GEM_FLINK", MAGIC, 0x0A, Struct("drm_gem_flink", (Field("handle"), Field("name"))))
GEM_OPEN = Ioctl(
    "GEM_OPEN", MAGIC, 0x0B, Struct("drm_gem_open", (Field("name"), Field("handle"), Field("size", "u64")))
)
GET_CAP = Ioctl("GET_CAP", MAGIC, 0x0C, Struct("drm_get_cap", (Field("capability", "u64"), Field("value", "u64"))))
SET_CLIENT_CAP = Ioctl(
    "SET_CLIENT_CAP", MAGIC, 0x0D,
    Struct("drm_set_client_cap", (Field("capability", "u64"), Field("value", "u64"))), WRITE,
)  # fmt: skip

_PRIME = Struct("drm_prime_handle", (Field("handle"), Field("flags"), Field("fd", "s32")))
PRIME_HANDLE_TO_FD = Ioctl(
    "PRIME_HANDLE_TO_FD", MAGIC, 0x2D, _PRIME, descriptors=(Descriptor("fd", out=True),)
)
PRIME_FD_TO_HANDLE = Ioctl("PRIME_FD_TO_HANDLE", MAGIC, 0x2E, _PRIME, descriptors=(Descriptor("fd"),))

IOCTLS = (
    VERSION, GET_UNIQUE, GET_MAGIC, SET_VERSION, GEM_CLOSE, GEM_FLINK, GEM_OPEN, GET_CAP, SET_CLIENT_CAP,
    PRIME_HANDLE_TO_FD, PRIME_FD_TO_HANDLE,
)  # fmt: skip

RENDER_ALLOWED = frozenset(
    ioctl.number for ioctl in (VERSION, GEM_CLOSE, GET_CAP, PRIME_HANDLE_TO_FD, PRIME_FD_TO_HANDLE)
)
"""What a render node (renderD129) allows of the above; the rest is EACCES there. The drivers allow all of their own."""
