"""Protobuf's wire format, as far as reading fields by number goes: no schema, no recursion, nothing copied."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, BYTES = 0, 2
_EIGHT, _FOUR = 1, 5


class DamagedError(Exception):
    """What is wrong, without the file's name."""


def fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """Number, wire type and value; floats that stand alone are four or eight bytes."""
    for number, kind, at, end in spans(data):
        yield number, kind, varint(data, at)[0] if kind == VARINT else data[at:end]


def spans(data: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type, and where the bytes of the value begin and end."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise DamagedError(f"a field has the number 0 at byte {at}")
        if kind == VARINT:
            size = varint(data, at)[1] - at
        elif kind == BYTES:
            size, at = varint(data, at)
        elif kind in {_EIGHT, _FOUR}:
            size = 8 if kind == _EIGHT else 4
        else:
            raise DamagedError(f"a field has the wire type {kind} at byte {at}")
        if size > len(data) - at:
            raise DamagedError(f"field {number} of {size} bytes, of which {len(data) - at} are there")
        yield number, kind, at, at + size
        at += size


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number, and where it ends. Bits beyond 64 are dropped, as protobuf does."""
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value & (1 << 64) - 1, at
    raise DamagedError(f"a number does not end at byte {at}")
