"""Structs of the C API as bytes, for callers of any version and width of pointers.

    codec = Codec(Version.parse("2.5.0"), pointer_bytes=8)
    values = codec.decode("rknn_input", packet)             # {"index": 0, "buf": 4096, "size": ..., ...}
    packet = codec.encode("rknn_input", values)

Names are text, enumerations and pointers are numbers, arrays are lists, arrays of char that are not text do not exist.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openrknn.vendor.tables.layouts import LP64, STRUCTS, Field, place, struct_named
from openrknn.vendor.tables.names import ENUMS
from openrknn.vendor.tables.versions import KNOWN_VERSIONS, Version

Values = dict[str, Any]
NEWEST = KNOWN_VERSIONS[-1]

_FORMATS = {
    "int8_t": "b", "uint8_t": "B", "int16_t": "h", "int32_t": "i", "uint32_t": "I", "int64_t": "q", "uint64_t": "Q",
    "float": "f", "int": "i", "char": "s",
}  # fmt: skip


class _Layout:
    """A struct as one caller lays it out: one unpacking reads all of its fields."""

    def __init__(self, name: str, version: Version, pointer_bytes: int) -> None:
        places = place(name, version, pointer_bytes)
        self.name, self.size, self.offsets = name, places.size_bytes, places.offsets
        self.fields = struct_named(name, version).fields
        self.inner = {
            field.name: _layout(field.type, version, pointer_bytes) for field in self.fields if field.type in STRUCTS
        }
        self.kinds: dict[str, str] = {}
        text, at = "<", 0
        for field in self.fields:
            part = self._format(field, pointer_bytes)
            text += f"{places.offsets[field.name] - at}x{part}"
            at = places.offsets[field.name] + struct.calcsize("<" + part)
        self._struct = struct.Struct(f"{text}{self.size - at}x")

    def _format(self, field: Field, pointer_bytes: int) -> str:
        if field.name in self.inner:
            return f"{self.inner[field.name].size}s"
        kind = "i" if field.type in ENUMS else _FORMATS.get(field.type, "Q" if pointer_bytes == LP64 else "I")
        self.kinds[field.name] = kind
        return f"{field.elements}{kind}"

    def decode(self, data: bytes | memoryview, offset: int) -> Values:
        if len(data) - offset < self.size:
            raise ValueError(f"{self.name} has {self.size} bytes, {max(len(data) - offset, 0)} came")
        found = self._struct.unpack_from(data, offset)
        values: Values = {}
        at = 0
        for field in self.fields:
            if field.name in self.inner:
                values[field.name] = self.inner[field.name].decode(found[at], 0)
            elif field.type == "char" and field.array:
                values[field.name] = found[at].split(b"\0", 1)[0].decode("utf-8", "replace")
            elif field.array:
                values[field.name] = _folded(list(found[at : at + field.elements]), field.array)
                at += field.elements - 1
            else:
                values[field.name] = found[at]
            at += 1
        return values

    def encode(self, values: Mapping[str, Any]) -> bytes:
        flat: list[Any] = []
        for field in self.fields:
            value = values.get(field.name)
            if field.name in self.inner:
                flat.append(self.inner[field.name].encode(value or {}))
            elif field.type == "char" and field.array:
                text = value.encode() if isinstance(value, str) else bytes(value or b"")
                flat.append(text[: field.elements - 1])
            elif field.array:
                numbers = _flat(value or [])
                flat += numbers + [0] * (field.elements - len(numbers))
            else:
                flat.append(0 if value is None else value)
        return self._struct.pack(*flat)

    def update(self, given: bytes | memoryview, values: Mapping[str, Any]) -> bytes:
        data = bytearray(given[: self.size])
        for field in self.fields:
            if field.name not in values:
                continue
            value, at = values[field.name], self.offsets[field.name]
            if field.name in self.inner:
                new = self.inner[field.name].encode(value)
            elif field.type == "char" and field.array:
                text = value.encode() if isinstance(value, str) else bytes(value)
                new = text[: field.elements - 1].ljust(field.elements, b"\0")
            else:
                numbers = _flat(value) if field.array else [value]
                new = struct.pack(f"<{len(numbers)}{self.kinds[field.name]}", *numbers)
            data[at : at + len(new)] = new
        return bytes(data)


@functools.cache
def _layout(name: str, version: Version, pointer_bytes: int) -> _Layout:
    return _Layout(name, version, pointer_bytes)


@dataclass(frozen=True)
class Codec:
    """How one caller lays out structs."""

    version: Version = NEWEST
    pointer_bytes: int = LP64

    def size(self, name: str) -> int:
        """sizeof."""
        return self._of(name).size

    def offset(self, name: str, field: str) -> int:
        """offsetof."""
        return self._of(name).offsets[field]

    def decode(self, name: str, data: bytes | memoryview, offset: int = 0) -> Values:
        """The fields of a struct that begins at `offset`; ValueError if it is cut short."""
        return self._of(name).decode(data, offset)

    def decode_array(self, name: str, data: bytes | memoryview, count: int, offset: int = 0) -> list[Values]:
        """`count` structs behind each other."""
        layout = self._of(name)
        return [layout.decode(data, offset + number * layout.size) for number in range(count)]

    def encode(self, name: str, values: Mapping[str, Any]) -> bytes:
        """The struct; what `values` does not name is zero, what the caller's version does not have is left out."""
        return self._of(name).encode(values)

    def update(self, name: str, given: bytes | memoryview, values: Mapping[str, Any]) -> bytes:
        """The struct with some fields changed; of an array of numbers, as many as `values` has."""
        return self._of(name).update(given, values)

    def _of(self, name: str) -> _Layout:
        return _layout(name, self.version, self.pointer_bytes)


def _flat(values: Any) -> list[Any]:
    return [one for value in values for one in (_flat(value) if isinstance(value, list | tuple) else [value])]


def _folded(values: list[Any], shape: tuple[int, ...]) -> list[Any]:
    if len(shape) == 1:
        return values
    step = len(values) // shape[0]
    return [_folded(values[start : start + step], shape[1:]) for start in range(0, len(values), step)]
