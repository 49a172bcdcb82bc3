"""Reads GGUF: metadata and the table of tensors at once, tensors when they are asked for.

A file is hostile until it is checked. Every count is compared with the bytes that are left before anything of that
size is made, so that memory is bounded by a small multiple of the file.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.errors import (
    BadTableError,
    BadTensorError,
    BadTextError,
    FormatError,
    OutOfBoundsError,
    TruncatedError,
    UnsupportedError,
)
from openrknn.llm.errors import NotWeightsError
from openrknn.llm.files.types import GGML_FORMATS, Bytes, NumberFormat, StoredTensor

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_OTHERS = {
    b"RKNN": "it is a compiled model of another kind; `openrknn inspect` says what is in it",
    b"PK\x03\x04": "it is an archive, such as a model that is compiled already (.rknnz)",
}
"""What people try instead."""
_MOST_KEYS = 65_536
_MOST_TENSORS = 65_536
_MOST_DIMENSIONS = 4
_LONGEST_NAME = 65_535
_LARGEST_ALIGNMENT = 1 << 20
_MOST_PARTS = 1024
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_ARRAY_TYPES = {
    0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
_PART = re.compile(r"^(.*)-(\d{5})-of-(\d{5})\.gguf$")


class GgufFile:
    """One GGUF file, or all parts of one that was split. `metadata` has str, bool, int, float, lists and arrays."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        first = _Part(self.path)
        self.metadata: dict[str, Any] = first.metadata
        self.tensors: dict[str, StoredTensor] = dict(first.tensors)
        for other in self._others():
            twice = self.tensors.keys() & other.tensors.keys()
            if twice:
                raise BadTableError(f"{other.path.name}: tensor {min(twice)!r} is in two parts of the file")
            self.tensors.update(other.tensors)

    def _others(self) -> list[_Part]:
        count = self.metadata.get("split.count", 1)
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= _MOST_PARTS:
            raise BadTableError(f"split.count is {count!r}, which is no number of parts", section="metadata")
        if count <= 1:
            return []
        match = _PART.match(self.path.name)
        if not match or int(match[3]) != count:
            raise UnsupportedError(
                f"{self.path.name} is one of {count} parts: its name must be NAME-00001-of-{count:05}.gguf"
            )
        if int(match[2]) != 1:
            raise UnsupportedError(f"{self.path.name} is not the first part: open {match[1]}-00001-of-{match[3]}.gguf")
        paths = other_parts(self.path)
        gone = [path.name for path in paths if not path.is_file()]
        if gone:
            raise TruncatedError(f"{gone[0]} is not there: the model has {count} parts, which must be in one folder")
        return [_Part(path) for path in paths]


def other_parts(path: Path) -> list[Path]:
    """Files that belong to the first part of a model, by its name, whether they exist or not."""
    match = _PART.match(path.name)
    count = min(int(match[3]), _MOST_PARTS) if match is not None and int(match[2]) == 1 else 0
    return [path.with_name(f"{match[1]}-{number:05}-of-{match[3]}.gguf") for number in range(2, count + 1) if match]


class _Part:
    """One file of bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = map_file(path)
        self._view = self._bytes.data
        self._at = 0
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, StoredTensor] = {}
        keys, tensors = self._header()
        for _ in range(keys):
            key = self._string("a key of the metadata", _LONGEST_NAME)
            if key in self.metadata:
                raise self._wrong(BadTableError, f"the key {key!r} appears twice", "metadata")
            self.metadata[key] = self._value(self._number("I", f"type of {key!r}"), key)
        self._table(tensors)

    def _header(self) -> tuple[int, int]:
        start = bytes(self._bytes[:8])
        if start[:4] != MAGIC:
            kind = _OTHERS.get(start[:4], f"it begins with {start[:4]!r}")
            raise NotWeightsError(f"{self.path.name} is no GGUF file: {kind}", offset=0)
        if len(start) < 8:
            raise TruncatedError(f"{self.path.name} ends inside its header", offset=len(start))
        (version,) = struct.unpack_from("<I", start, 4)
        if version not in _VERSIONS:
            if struct.unpack_from(">I", start, 4)[0] in _VERSIONS:
                raise UnsupportedError(f"{self.path.name} is big-endian; only little-endian GGUF is read")
            raise UnsupportedError(f"{self.path.name} has version {version} of GGUF; 2 and 3 are read")
        self._at = 8
        tensors = self._number("Q", "the number of tensors")
        keys = self._number("Q", "the number of keys")
        # 13 bytes: an empty name, a type, one byte. 32: an empty name, one dimension, a type, an offset.
        if keys > _MOST_KEYS or keys * 13 > self._left():
            raise self._wrong(BadTableError, f"{keys} keys of metadata do not fit into the file", "header")
        if tensors > _MOST_TENSORS or tensors * 32 > self._left():
            raise self._wrong(BadTableError, f"{tensors} tensors do not fit into the file", "header")
        return keys, tensors

    def _table(self, count: int) -> None:
        entries = [self._entry() for _ in range(count)]
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 0 < alignment <= _LARGEST_ALIGNMENT or alignment & (alignment - 1):
            raise self._wrong(BadTableError, f"general.alignment is {alignment!r}, no power of two", "metadata")
        base = -(-self._at // alignment) * alignment
        for name, shape, form, offset in entries:
            section = f"tensor {name!r}"
            if name in self.tensors:
                raise self._wrong(BadTableError, f"the tensor {name!r} appears twice", "table of tensors")
            if offset % alignment:
                raise self._wrong(OutOfBoundsError, f"its offset {offset} is no multiple of {alignment}", section)
            rows = 1
            for size in shape[:-1]:
                rows *= size
            size = rows * form.row_bytes(shape[-1])
            if base + offset + size > len(self._bytes):
                raise TruncatedError(
                    f"{self.path.name} has {len(self._bytes)} bytes, and this tensor ends at {base + offset + size}; "
                    "copy the file again",
                    offset=base + offset, section=section,
                )  # fmt: skip
            data = self._bytes[base + offset : base + offset + size].reshape(rows, -1)
            self.tensors[name] = StoredTensor(name, shape, form, data)

    def _entry(self) -> tuple[str, tuple[int, ...], NumberFormat, int]:
        name = self._string("the name of a tensor", _LONGEST_NAME)
        section = f"tensor {name!r}"
        dimensions = self._number("I", f"the dimensions of {name!r}")
        if not 0 < dimensions <= _MOST_DIMENSIONS:
            raise self._wrong(BadTensorError, f"it has {dimensions} dimensions; 1 to 4 are possible", section)
        shape = tuple(self._number("Q", f"a size of {name!r}") for _ in range(dimensions))[::-1]
        kind = self._number("I", f"the type of {name!r}")
        offset = self._number("Q", f"the offset of {name!r}")
        if kind not in GGML_FORMATS:
            raise UnsupportedError(f"{section} has ggml's type {kind}, which is no format of weights that is read here")
        form = GGML_FORMATS[kind]
        if any(not 0 < size <= len(self._bytes) * 8 for size in shape):
            raise self._wrong(BadTensorError, f"its shape {list(shape)} is impossible in this file", section)
        if shape[-1] % form.block:
            raise self._wrong(BadTensorError, f"rows of {shape[-1]} are no whole blocks of {form.name}", section)
        return name, shape, form, offset

    def _value(self, kind: int, key: str) -> Any:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind], f"the value of {key!r}")
        if kind == _STRING:
            return self._string(f"the value of {key!r}", self._left())
        if kind != _ARRAY:
            raise self._wrong(BadTableError, f"{key!r} has type {kind}, which GGUF does not have", "metadata")
        inner = self._number("I", f"the type of {key!r}")
        count = self._number("Q", f"the length of {key!r}")
        if inner == _STRING:
            if count * 8 > self._left():
                raise self._wrong(TruncatedError, f"{count} texts of {key!r} do not fit into the file", "metadata")
            return [self._string(f"a text of {key!r}", self._left()) for _ in range(count)]
        if inner not in _ARRAY_TYPES:
            raise self._wrong(BadTableError, f"{key!r} is an array of type {inner}, which is not read", "metadata")
        dtype = np.dtype(_ARRAY_TYPES[inner])
        if count * dtype.itemsize > self._left():
            raise self._wrong(TruncatedError, f"{count} numbers of {key!r} do not fit into the file", "metadata")
        start, self._at = self._at, self._at + count * dtype.itemsize
        return self._bytes[start : self._at].view(dtype).copy()

    def _number(self, form: str, what: str) -> Any:
        size = struct.calcsize("<" + form)
        if self._left() < size:
            raise self._wrong(TruncatedError, f"{self.path.name} ends inside {what}", "header")
        (value,) = struct.unpack_from("<" + form, self._view, self._at)
        self._at += size
        return value

    def _string(self, what: str, longest: int) -> str:
        length = self._number("Q", what)
        if length > self._left() or length > longest:
            raise self._wrong(TruncatedError, f"{what} has {length} bytes, more than are left", "header")
        start, self._at = self._at, self._at + length
        try:
            return str(self._view[start : self._at], "utf-8")
        except UnicodeDecodeError as error:
            raise BadTextError(f"{what} is not UTF-8: {error}", offset=start, section="header") from None

    def _left(self) -> int:
        return len(self._bytes) - self._at

    def _wrong(self, kind: type[FormatError], text: str, section: str) -> FormatError:
        return kind(f"{self.path.name}: {text}", offset=self._at, section=section)


def map_file(path: Path) -> Bytes:
    """The bytes of a file, read when they are looked at. Weights that two processes use are in memory once."""
    if not path.is_file():
        raise NotWeightsError(f"{path} is no file" if path.exists() else f"{path} is not there")
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise TruncatedError(f"{path.name} is empty", offset=0)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
