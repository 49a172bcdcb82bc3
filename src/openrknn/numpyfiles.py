"""Untrusted `.npy` and `.npz` files: sizes are checked before anything is allocated.

NumPy believes a header: a file of 100 bytes that announces a terabyte makes it ask for a terabyte, and a damaged
archive ends in whichever error its decompressor has. Here both are a `FormatError`, and no pickles are read.
"""

from __future__ import annotations

import os
import tokenize
import zipfile
import zlib
from types import TracebackType
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.errors import FormatError

Array: TypeAlias = npt.NDArray[Any]

_SUFFIX = ".npy"
_MOST_TIMES = 1000
"""Deflated data become at most about so many times as long."""
_DAMAGE = (ValueError, EOFError, TypeError, SyntaxError, zlib.error, zipfile.BadZipFile, NotImplementedError,
           RuntimeError, RecursionError, OverflowError, tokenize.TokenError)  # fmt: skip


def read_npy(path: str | os.PathLike[str]) -> Array:
    """The array in a `.npy`."""
    with open(path, "rb") as file:
        return _array(file, os.fstat(file.fileno()).st_size, os.fspath(path))


class NpzFile:
    """The arrays of a `.npz`, each read when it is asked for."""

    def __init__(self, path: str | os.PathLike[str], *, largest_bytes: int) -> None:
        """`largest_bytes`: an array that needs more is refused before it is inflated."""
        self._path = os.fspath(path)
        self._largest = largest_bytes
        try:
            self._archive = zipfile.ZipFile(path)
        except _DAMAGE as error:
            raise FormatError(f"not a .npz file: {error}", section=self._path) from None
        self.names = tuple(name.removesuffix(_SUFFIX) for name in self._archive.namelist())

    def read(self, name: str) -> Array:
        """One array."""
        where = f"{self._path}[{name}]"
        members = self._archive.namelist()
        member = f"{name}{_SUFFIX}" if f"{name}{_SUFFIX}" in members else name
        if member not in members:
            raise FormatError(f"there is no array {name!r}; there are {', '.join(self.names)}", section=where)
        info = self._archive.getinfo(member)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # Python inflates others whole
            raise FormatError(f"compressed in an unknown way ({info.compress_type})", section=where)
        try:
            with self._archive.open(info) as file:
                room = min(info.file_size, info.compress_size * _MOST_TIMES + _MOST_TIMES, self._largest + _MOST_TIMES)
                return _array(file, room, where)
        except (*_DAMAGE, OSError) as error:  # a damaged directory leads to places that cannot be
            raise FormatError(f"damaged: {error}", section=where) from None

    def __enter__(self) -> NpzFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._archive.close()


def _array(file: IO[bytes], size: int, where: str) -> Array:
    """The array that `file` holds, of which at most `size` bytes are read."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise FormatError(f"a .npy file of version {version} is not known", section=where)
        shape, by_columns, dtype = _HEADERS[version](file)
        count = 1
        for side in shape:
            count *= side
        if dtype.hasobject or dtype.kind in "VSU":
            raise FormatError(f"it holds {dtype}s, not numbers", section=where)
        if count * dtype.itemsize > size:
            raise FormatError(f"it announces {list(shape)} of {dtype}, more than there can be", section=where)
        data = file.read(count * dtype.itemsize)
        if len(data) < count * dtype.itemsize:
            raise FormatError(f"it ends early: {list(shape)} of {dtype} were announced", section=where)
        return np.frombuffer(bytearray(data), dtype).reshape(shape, order="F" if by_columns else "C")
    except FormatError:
        raise
    except _DAMAGE as error:
        raise FormatError(f"not a NumPy file of numbers: {error}", section=where) from None


_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
