"""Landlock (Linux 5.13 and later): which files and ports this process and its children may use from now on.

There is no wrapper in the C library: the three system calls have the same numbers on every architecture.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

__all__ = ["restrict", "version"]

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH = 1, 1
_WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _REFER = 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 13
_REMOVE, _MAKE_DIR, _MAKE_FILE = (1 << 4) | (1 << 5), 1 << 7, 1 << 8
_READ = _READ_FILE | _READ_DIR
_ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_LATER = (1 << 16) - 1
"""Version 5 added ioctl of devices."""
_PORTS, _SCOPES = 0b11, 0b11
"""TCP bind and connect (version 4); abstract Unix sockets and signals of others (version 6)."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("ports", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("rights", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def version() -> int:
    """Of Landlock in this kernel; 0 if it has none, or it is switched off."""
    create = ctypes.CDLL(None).syscall
    return max(int(create(ctypes.c_long(_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))), 0)


def restrict(read: Iterable[str], write: Iterable[str], devices: Iterable[str] = ()) -> bool:
    """Allow reading below `read`, reading and writing below `write`, and nothing else; whether the kernel does it."""
    known = version()
    if not known:
        return False
    library = ctypes.CDLL(None, use_errno=True)
    handled = _ALL.get(known, _ALL_LATER)
    rules = _Ruleset(handled, _PORTS if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    ruleset = library.syscall(
        ctypes.c_long(_CREATE), ctypes.byref(rules), ctypes.c_size_t(size), ctypes.c_uint32(0)
    )
    if ruleset < 0:
        return False
    try:
        own = (_READ | _WRITE_FILE | _TRUNCATE | _REMOVE | _MAKE_DIR | _MAKE_FILE | _REFER) & handled
        rights = [(path, _READ) for path in read]
        rights += [(path, own) for path in write]
        rights += [(path, (_READ_FILE | _WRITE_FILE | _TRUNCATE) & handled) for path in devices]
        for path, allowed in rights:
            _allow(library, ruleset, path, allowed)
        return bool(library.syscall(ctypes.c_long(_RESTRICT), ctypes.c_int(ruleset), ctypes.c_uint32(0)) == 0)
    finally:
        os.close(ruleset)


def _allow(library: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no right
    try:
        if not os.path.isdir(path):
            rights &= _READ_FILE | _WRITE_FILE | _TRUNCATE
        beneath = _Beneath(rights, descriptor)
        library.syscall(
            ctypes.c_long(_ADD), ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), ctypes.byref(beneath),
            ctypes.c_uint32(0),
        )  # fmt: skip
    finally:
        os.close(descriptor)
