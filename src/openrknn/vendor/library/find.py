"""Where the vendor's library is: an argument, OPENRKNN_LIBRARY, the usual folders, installed wheels.

Everything that was tried and did not fit goes into one error, each with its reason. The library is never imported from
a wheel; only the file is looked at.
"""

from __future__ import annotations

import os
import platform
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from openrknn.vendor.errors import LibraryNotFoundError

VARIABLE = "OPENRKNN_LIBRARY"
NAMES = ("librknnrt.so", "librknnmrt.so")
"""RK3588, RK3576, RK356x; and RV1103, RV1106."""
FOLDERS = (
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/arm-linux-gnueabihf",
    "/lib",
    "/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/vendor/lib64",
    "/vendor/lib",
    "/oem/usr/lib",
    "/oem/lib",
)
"""Debian and Buildroot images, Android, and the camera SDKs of RV1103 and RV1106."""

_ANY_NAME = "librknn*rt*.so*"
_WHEEL_PATTERNS = (f"*.libs/{_ANY_NAME}", f"rknn*/{_ANY_NAME}", f"rknn*/*/{_ANY_NAME}")
_MACHINES = {0x28: "32-bit Arm", 0x3E: "x86_64", 0xB7: "aarch64", 0x03: "x86", 0xF3: "RISC-V"}
_OWN = {"aarch64": 0xB7, "arm64": 0xB7, "x86_64": 0x3E, "amd64": 0x3E, "i386": 0x03, "i686": 0x03}
_ELF_HEADER = struct.Struct("<4sBBB9xHH")


def find_library(wanted: str | os.PathLike[str] | None = None) -> Path:
    """The library to load. An argument or OPENRKNN_LIBRARY that does not fit is an error, not a hint."""
    attempts: list[tuple[str, str]] = []
    named = wanted if wanted is not None else os.environ.get(VARIABLE)
    for place in _named(Path(named)) if named else _usual_places():
        reason = why_not(place)
        if reason is None:
            return place
        attempts.append((str(place), reason))
    source = "as an argument" if wanted is not None else f"by {VARIABLE}" if named else ""
    raise LibraryNotFoundError(_message(attempts, source), tuple(attempts))


def why_not(path: Path) -> str | None:
    """Why this file cannot be loaded here; None if it looks right."""
    if not path.exists():
        return "not there"
    if not path.is_file():
        return "not a file"
    try:
        with open(path, "rb") as stream:
            header = stream.read(_ELF_HEADER.size)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if len(header) < _ELF_HEADER.size or not header.startswith(b"\x7fELF"):
        return "not a shared library"
    _, _, _, _, _, machine = _ELF_HEADER.unpack(header)
    own = _OWN.get(platform.machine().lower(), 0x28 if platform.machine().startswith("arm") else None)
    if sys.maxsize < 2**32 and own == _OWN["aarch64"]:
        own = 0x28  # a 32-bit Python on a 64-bit kernel
    if own is not None and machine != own:
        return f"for {_MACHINES.get(machine, f'machine {machine:#x}')}, this Python is {_MACHINES[own]}"
    return None


def _named(path: Path) -> Iterator[Path]:
    if path.is_dir():
        found = sorted(path.glob(_ANY_NAME))
        yield from found or (path / name for name in NAMES)
    else:
        yield path


def _usual_places() -> Iterator[Path]:
    seen: set[Path] = set()
    folders = [*filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)), *FOLDERS]
    for place in [Path(folder) / name for folder in folders for name in NAMES]:
        if place not in seen:
            seen.add(place)
            yield place
    for folder in dict.fromkeys(filter(None, sys.path)):
        for pattern in _WHEEL_PATTERNS:
            yield from sorted(Path(folder).glob(pattern))


def _message(attempts: list[tuple[str, str]], source: str) -> str:
    if source:
        listed = "; ".join(f"{place} is {reason}" for place, reason in attempts)
        return f"the library that was named {source} cannot be loaded: {listed}"
    other = "".join(f"\n  {place}: {reason}" for place, reason in attempts if reason != "not there")
    empty = ", ".join(dict.fromkeys(str(Path(place).parent) for place, reason in attempts if reason == "not there"))
    return (
        f"the vendor's library ({' or '.join(NAMES)}) is not on this machine; name it with {VARIABLE} or as an "
        f"argument, or use another device. It is not in: {empty}, nor in a package on sys.path." + other
    )
