"""Every copy of the vendor's library on the system, and its version, without loading it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from openrknn.vendor.library.find import FOLDERS, why_not
from openrknn.vendor.tables.versions import Version, is_open_library, version_in_file

__all__ = ["Library", "Teflon", "find_libraries", "find_teflon", "python_folders"]

_NAMES = "librknn*rt.so*"
_MORE_FOLDERS = ("/usr/lib/*", "/opt/*/lib", "/opt/*", "/run/opengl-driver/lib", "/run/current-system/sw/lib")
_PYTHONS = (
    "usr/lib/python3*/*-packages",
    "usr/local/lib/python3*/*-packages",
    "opt/*/lib/python3*/site-packages",
    "root/*/lib/python3*/site-packages",
    "home/*/*/lib/python3*/site-packages",
)
_TEFLON_FOLDERS = ("/usr/lib", "/usr/lib/*", "/usr/local/lib", "/usr/local/lib/*", "/opt/*/lib")
_ROCKET_MARK = b"ROCKET_DEBUG"
_MESA = re.compile(rb"Mesa (\d{2}\.\d{1,2}\.\d{1,2})")
_MOST_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Library:
    """A copy of librknnrt or librknnmrt."""

    path: str
    """Below the root."""
    name: str
    """librknnrt or librknnmrt."""
    version: Version | None
    problem: str | None
    """Why this machine's Python cannot load it."""
    is_open: bool = False
    """openrknn's own, not the vendor's."""


@dataclass(frozen=True, slots=True)
class Teflon:
    """Mesa's TensorFlow Lite delegate."""

    path: str
    version: str | None
    knows_rocket: bool


def find_libraries(root: Path) -> tuple[Library, ...]:
    """All of them, each file once: /lib is often a link to /usr/lib."""
    found: dict[tuple[int, int], Library] = {}
    # openrknn's own is one file under two names: it is listed by the first.
    for place in sorted(_places(root), key=lambda place: "mrt" in place.name):
        try:
            status = place.stat()
            version = version_in_file(place)
            is_open = is_open_library(place)
        except (OSError, ValueError):
            continue
        path = "/" + str(place.relative_to(root))
        name = "librknnmrt" if "mrt" in place.name else "librknnrt"
        problem = why_not(place)
        found.setdefault((status.st_dev, status.st_ino), Library(path, name, version, problem, is_open))
    return tuple(found.values())


def find_teflon(root: Path) -> tuple[Teflon, ...]:
    """Copies of libteflon.so; those before Mesa 25.3 do not know rocket."""
    found: dict[Path, Teflon] = {}
    for folder in _TEFLON_FOLDERS:
        for place in sorted(root.glob(f"{folder.lstrip('/')}/libteflon.so")):
            try:
                if place.stat().st_size > _MOST_BYTES:
                    continue
                content = place.read_bytes()
            except OSError:
                continue
            match = _MESA.search(content)
            version = match[1].decode() if match else None
            path = "/" + str(place.relative_to(root))
            found.setdefault(place.resolve(), Teflon(path, version, _ROCKET_MARK in content))
    return tuple(found.values())


def python_folders(root: Path) -> Iterator[Path]:
    """Where Python packages are installed."""
    if root == Path("/"):
        yield from (Path(entry) for entry in dict.fromkeys(sys.path) if entry and os.path.isdir(entry))
    for pattern in _PYTHONS:
        yield from sorted(root.glob(pattern))


def _places(root: Path) -> Iterator[Path]:
    folders = [*FOLDERS, *_MORE_FOLDERS]
    for folder in folders:
        yield from sorted(root.glob(f"{folder.lstrip('/')}/{_NAMES}"))
    if root == Path("/"):
        for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)):
            yield from sorted(Path(folder).absolute().glob(_NAMES))
        if named := os.environ.get("OPENRKNN_LIBRARY"):
            yield Path(named).absolute()
    for packages in python_folders(root):
        for pattern in (f"*.libs/{_NAMES}", f"rknn*/{_NAMES}", f"rknn*/*/{_NAMES}"):
            yield from sorted(packages.glob(pattern))
