"""Writes FlatBuffers: as much of the format as the models of the tests need (tables, vectors, texts)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Scalar", "Table", "Vector", "written"]

_LARGEST_ALIGNMENT = 16


@dataclass(frozen=True)
class Scalar:
    """A number in a table, with its `struct` letter."""

    letter: str
    value: float


@dataclass(frozen=True)
class Vector:
    """Numbers of one `struct` letter, or bytes."""

    letter: str
    values: Sequence[float] | bytes



@dataclass(frozen=True)
class Table:
    """Slot -> what is there."""

    fields: Mapping[int, Scalar | Table | Vector | str | list[Table]]


def written(root: Table, identifier: bytes) -> bytes:
    """A file whose root is this table."""
    data = bytearray(4) + identifier
    struct.pack_into("<I", data, 0, _put(data, root))
    return bytes(data)


def _put(data: bytearray, value: Table | Vector | str | list[Table]) -> int:
    """Write a value behind everything else; its place. Offsets point forwards, so what it refers to follows it."""
    if isinstance(value, Table):
        return _put_table(data, value)
    if isinstance(value, list):
        place = _put_vector(data, "I", [0] * len(value))
        for number, entry in enumerate(value):
            _refer(data, place + 4 + 4 * number, entry)
        return place
    if isinstance(value, str):
        place = _put_vector(data, "B", value.encode())
        data.append(0)
        return place
    return _put_vector(data, value.letter, value.values)


def _put_table(data: bytearray, table: Table) -> int:
    fields = sorted(table.fields.items(), key=lambda field: -_size(field[1]))
    offsets, size = {}, 4
    for slot, value in fields:
        size += -size % _size(value)
        offsets[slot] = size
        size += _size(value)
    slots = max(offsets, default=-1) + 1
    index = struct.pack(f"<{2 + slots}H", 4 + 2 * slots, size, *(offsets.get(slot, 0) for slot in range(slots)))
    _align(data, 8, len(index))
    data += index
    place = len(data)
    data += struct.pack("<i", len(index)) + bytes(size - 4)
    for slot, value in fields:
        if isinstance(value, Scalar):
            struct.pack_into(f"<{value.letter}", data, place + offsets[slot], value.value)
    for slot, value in fields:
        if not isinstance(value, Scalar):
            _refer(data, place + offsets[slot], value)
    return place


def _put_vector(data: bytearray, letter: str, values: Sequence[float] | bytes) -> int:
    _align(data, _LARGEST_ALIGNMENT, 4)
    place = len(data)
    data += struct.pack("<I", len(values))
    data += values if isinstance(values, bytes) else struct.pack(f"<{len(values)}{letter}", *values)
    return place


def _refer(data: bytearray, place: int, value: Table | Vector | str | list[Table]) -> None:
    struct.pack_into("<I", data, place, _put(data, value) - place)


def _size(value: object) -> int:
    return struct.calcsize(value.letter) if isinstance(value, Scalar) else 4


def _align(data: bytearray, alignment: int, before: int) -> None:
    """Fill up, so that what follows after `before` more bytes is aligned."""
    data += bytes(-(len(data) + before) % alignment)
