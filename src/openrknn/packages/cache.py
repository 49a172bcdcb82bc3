"""The folder of unpacked packages, and how one gets into it: beside its place first, then in one step."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from openrknn import folders
from openrknn.packages.errors import PackageError

__all__ = ["VARIABLE", "cache_folder", "cached", "kept"]

VARIABLE = "OPENRKNN_PACKAGES"


def cache_folder() -> Path:
    """$OPENRKNN_PACKAGES, else openrknn/packages in the user's cache."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen)
    found = folders.cache_folder("packages", may_be_off=False)
    if found is None:
        raise PackageError(f"there is no folder that is yours alone for downloaded packages; set {VARIABLE} to one")
    return found


def cached(package: str, version: str) -> tuple[Path, str] | None:
    """The files of a package that was fetched before, and where they are from."""
    place = _place(package, version)
    note = place / ".origin"
    return (place, note.read_text(encoding="utf-8")) if note.is_file() else None


def kept(package: str, version: str, origin: str, unpack: Callable[[Path], None]) -> Path:
    """`unpack` into a folder of its own, which takes its place when it is complete."""
    place = _place(package, version)
    half = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        half.mkdir(parents=True, exist_ok=True)
        unpack(half)
        (half / ".origin").write_text(origin, encoding="utf-8")
        shutil.rmtree(place, ignore_errors=True)
        half.replace(place)
    except OSError as error:
        raise PackageError(f"{place}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return place


def _place(package: str, version: str) -> Path:
    return cache_folder() / f"{package.replace('/', '+')}-{version}"
