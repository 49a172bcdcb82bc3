"""Structs of the C API as bytes, for callers of any version and width of pointers.

    codec = Codec(Version.parse("2.5.0"), pointer_bytes=8)
    values = codec.decode("rknn_input", packet)             # {"index": 0, "buf": 4096, "size": ..., ...}
    packet = codec.encode("rknn_input", values)

Names are text, enumerations and pointers are numbers, arrays are lists, arrays of char that are not text do not exist.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openrknn.vendor.tables.layouts import LP64, STRUCTS, Field, place, struct_named
from openrknn.vendor.tables.names import ENUMS
from openrknn.vendor.tables.versions import KNOWN_VERSIONS, Version

__all__ = ["NEWEST", "Codec", "Values"]

Values = dict[str, Any]
NEWEST = KNOWN_VERSIONS[-1]

_FORMATS = {
    "int8_t": "b", "uint8_t": "B", "int16_t": "h", "int32_t": "i", "uint32_t": "I", "int64_t": "q", "uint64_t": "Q",
    "float": "f", "int": "i", "char": "s",
}  # fmt: skip


@dataclass(frozen=True)
class Codec:
    """How one caller lays out structs."""

    version: Version = NEWEST
    pointer_bytes: int = LP64

    def size(self, name: str) -> int:
        """sizeof."""
        return place(name, self.version, self.pointer_bytes).size_bytes

    def offset(self, name: str, field: str) -> int:
        """offsetof."""
        return place(name, self.version, self.pointer_bytes).offsets[field]

    def decode(self, name: str, data: bytes | memoryview, offset: int = 0) -> Values:
        """The fields of a struct that begins at `offset`; ValueError if it is cut short."""
        places = place(name, self.version, self.pointer_bytes)
        if len(data) - offset < places.size_bytes:
            raise ValueError(f"{name} has {places.size_bytes} bytes, {max(len(data) - offset, 0)} came")
        fields = struct_named(name, self.version).fields
        return {field.name: self._read(field, data, offset + places.offsets[field.name]) for field in fields}

    def decode_array(self, name: str, data: bytes | memoryview, count: int, offset: int = 0) -> list[Values]:
        """`count` structs behind each other."""
        size = self.size(name)
        return [self.decode(name, data, offset + number * size) for number in range(count)]

    def encode(self, name: str, values: Mapping[str, Any]) -> bytes:
        """The struct; what `values` does not name is zero, what the caller's version does not have is left out."""
        return self.update(name, bytes(self.size(name)), values)

    def update(self, name: str, given: bytes | memoryview, values: Mapping[str, Any]) -> bytes:
        """The struct with some fields changed; of an array of numbers, as many as `values` has."""
        places = place(name, self.version, self.pointer_bytes)
        data = bytearray(given[: places.size_bytes])
        for field in struct_named(name, self.version).fields:
            if field.name in values:
                self._write(field, data, places.offsets[field.name], values[field.name])
        return bytes(data)

    def _read(self, field: Field, data: bytes | memoryview, offset: int) -> Any:
        if field.type == "char" and field.array:
            return bytes(data[offset : offset + field.elements]).split(b"\0")[0].decode("utf-8", "replace")
        if field.type in STRUCTS:
            return self.decode(field.type, data, offset)
        found = list(struct.unpack_from(self._format(field), data, offset))
        return _folded(found, field.array) if field.array else found[0]

    def _write(self, field: Field, data: bytearray, offset: int, value: Any) -> None:
        if field.type == "char" and field.array:
            text = value.encode() if isinstance(value, str) else bytes(value)
            data[offset : offset + field.elements] = text[: field.elements - 1].ljust(field.elements, b"\0")
        elif field.type in STRUCTS:
            data[offset : offset + self.size(field.type)] = self.encode(field.type, value)
        else:
            flat = _flat(value) if field.array else [value]
            struct.pack_into(self._format(field, len(flat)), data, offset, *flat)

    def _format(self, field: Field, count: int | None = None) -> str:
        if field.type in ENUMS:
            kind = "i"
        elif field.type in _FORMATS:
            kind = _FORMATS[field.type]
        else:
            kind = "Q" if self.pointer_bytes == LP64 else "I"
        return f"<{field.elements if count is None else count}{kind}"


def _flat(values: Any) -> list[Any]:
    return [one for value in values for one in (_flat(value) if isinstance(value, list | tuple) else [value])]


def _folded(values: list[Any], shape: tuple[int, ...]) -> list[Any]:
    if len(shape) == 1:
        return values
    step = len(values) // shape[0]
    return [_folded(values[start : start + step], shape[1:]) for start in range(0, len(values), step)]
