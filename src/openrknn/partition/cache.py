"""Compiled parts and whole parted models on disk: by content, options and compiler."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import openrknn
from openrknn.compiler.errors import CompileError
from openrknn.folders import cache_folder
from openrknn.partition.options import PartitionOptions

_LOG = logging.getLogger(__name__)
_MOST_BYTES = 4 * 2**30
_COMPUTED_WITH = ("numpy", "onnx", "onnxruntime")
"""They fold constants and compute what parts are compared with."""


@cache
def compiler_version() -> str:
    """The version, all of the package's sources (in a checkout they change without it), and what it computes with.

    All sources, because no list of those that matter stays right: registers, chips, costs and the software NPU that
    tries parts decide as well as the compiler. Reading them takes a few hundredths of a second, once a process.
    """
    digest = hashlib.sha256(openrknn.__version__.encode())
    root = Path(openrknn.__file__).parent
    for path in sorted(root.rglob("*.py")):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(data)}\0".encode())
        digest.update(data)
    for package in _COMPUTED_WITH:
        with contextlib.suppress(metadata.PackageNotFoundError):
            digest.update(f"{package} {metadata.version(package)}\0".encode())
    return digest.hexdigest()


class Cache:
    """Files named by what they were made from. What cannot be read or written is made again: nothing fails here."""

    def __init__(self, where: str | os.PathLike[str] | bool) -> None:
        self.folder: Path | None = None
        if where is True:
            self.folder = cache_folder("parts")
        elif where is not False:
            self.folder = Path(where)

    def key(self, data: bytes, options: PartitionOptions, *more: str) -> str:
        """Of what was made from `data`."""
        digest = hashlib.sha256(data)
        digest.update("\0".join((compiler_version(), options.digest, *more)).encode())
        return digest.hexdigest()

    def get(self, key: str, suffix: str) -> bytes | None:
        """What is stored, if it is."""
        if self.folder is None:
            return None
        path = self.folder / f"{key}{suffix}"
        try:
            data = path.read_bytes()
            os.utime(path)  # for `_trim`
        except OSError:
            return None
        return data

    def put(self, key: str, suffix: str, data: bytes) -> None:
        """Another process that reads it meanwhile sees all or nothing."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                Path(name).replace(self.folder / f"{key}{suffix}")
            except BaseException:
                with contextlib.suppress(OSError):
                    Path(name).unlink()
                raise
            self._trim()
        except OSError as error:
            _LOG.warning("%s cannot be written (%s): parts are compiled again next time", self.folder, error.strerror)

    def _trim(self) -> None:
        """The oldest go when there is too much."""
        assert self.folder is not None
        entries = sorted(
            ((path.stat().st_mtime, path.stat().st_size, path) for path in self.folder.iterdir()), reverse=True
        )
        total = 0
        for _, size, path in entries:
            total += size
            if total > _MOST_BYTES:
                with contextlib.suppress(OSError):
                    path.unlink()


def calibration_digest(calibration: Any) -> str:
    """Of what a user gave; objects that content cannot distinguish are distinguished by identity."""
    if calibration is None:
        return ""
    digest = hashlib.sha256()
    _feed(digest, calibration)
    return digest.hexdigest()


def _feed(digest: Any, entry: Any) -> None:
    if isinstance(entry, Mapping):
        for name in sorted(entry, key=str):
            digest.update(str(name).encode())
            _feed(digest, entry[name])
    elif isinstance(entry, str | os.PathLike):
        path = Path(entry)
        try:
            for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
                digest.update(file.name.encode())
                if file.is_file():
                    digest.update(hashlib.sha256(file.read_bytes()).digest())
        except OSError as error:
            raise CompileError(f"the calibration data {path} cannot be read: {error.strerror}") from None
    elif isinstance(entry, Sequence):
        for one in entry:
            _feed(digest, one)
    elif hasattr(entry, "tobytes"):
        digest.update(f"{entry.dtype} {entry.shape}".encode())
        digest.update(entry.tobytes())
    else:
        digest.update(f"{type(entry)} {id(entry)}".encode())
