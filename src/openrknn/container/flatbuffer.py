"""A FlatBuffer reader that trusts nothing.

The general library's Python reader does not check bounds, and `.rknn` files use 64-bit offsets in two places, so
this one is ours. A `Table` gives the value of a slot, or a default when the slot is absent, as FlatBuffers say.
Vectors are returned as `memoryview`s into the file: nothing is copied.

A hostile file can name the same bytes again and again, so that a small file unfolds into a huge model. Every table,
text and element that becomes a Python object is therefore charged to a budget that grows with the file's size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from openrknn.errors import BadTableError, BadTextError, OutOfBoundsError, TooComplexError

_U16 = struct.Struct("<H")
_I32 = struct.Struct("<i")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")
_F32 = struct.Struct("<f")
_PAIR = struct.Struct("<iI")

_TABLE_COST = 2048
_TEXT_COST = 128
_SLOT_COST = 128
"""Of a slot of a vtable that is kept."""
_FREE_COST = 32 * 1024 * 1024
_COST_PER_BYTE = 32
"""What a byte of tables, texts and numbers costs at most as Python objects: 2048 for a table of 64 bytes."""
_LINE_BYTES = 64
_SMALL = frozenset((1, 2, 3))
"""Places in a table that its own head has."""
_MAX_VTABLE_BYTES = 512
"""The widest table of the format has 22 slots; a vtable far beyond that is damage."""


class _Vtable(NamedTuple):
    table_bytes: int
    slots: tuple[int, ...]
    """Where the value of each slot is; 0: absent."""
    present: frozenset[int]


class Buffer:
    """The bytes of one FlatBuffer, where they are in the file, and what reading them may still cost.

    Bytes that are read for the first time pay for the objects that are made of them; what refers to the same bytes
    again lives on an allowance. So a file may be as rich as it is large, and cannot be cheap and cost much.
    """

    __slots__ = ("_left", "_seen", "data", "file_offset", "section", "size", "vtables")

    def __init__(self, data: memoryview, file_offset: int, section: str) -> None:
        self.data = data
        self.size = len(data)
        self.file_offset = file_offset
        self.section = section
        self._left = _FREE_COST + len(data)
        self._seen = bytearray(len(data) // _LINE_BYTES + 1)
        self.vtables: dict[bytes, _Vtable] = {}
        """Those that were read, by their bytes."""

    def charge(self, cost: int, start: int = 0, size_bytes: int = 0) -> None:
        """Pay for Python objects that are about to be made, of these bytes where they are known."""
        if size_bytes:
            first, end = start // _LINE_BYTES, (start + size_bytes - 1) // _LINE_BYTES + 1
            fresh = self._seen.count(0, first, end)
            if fresh:
                self._seen[first:end] = b"\1" * (end - first)
                self._left += fresh * _LINE_BYTES * _COST_PER_BYTE
        self._left -= cost
        if self._left < 0:
            raise TooComplexError(
                "the file refers to the same bytes so often that reading it would need far more memory than its size",
                section=self.section,
            )

    def check(self, position: int, size: int, what: str) -> None:
        """Raise unless `size` bytes at `position` are inside."""
        if position < 0 or size < 0 or position + size > self.size:
            raise OutOfBoundsError(
                f"{what} needs {size} bytes at {position:#x}, but the part has {self.size:#x}",
                offset=self.file_offset + max(position, 0),
                section=self.section,
            )

    def root(self, identifier: bytes) -> Table:
        """The table that the buffer starts with, after a look at the file identifier."""
        self.check(0, 8, "the FlatBuffer's head")
        found = bytes(self.data[4:8])
        if found != identifier:
            raise BadTableError(
                f"the FlatBuffer's identifier is {found!r}, not {identifier!r}",
                offset=self.file_offset + 4,
                section=self.section,
            )
        return Table(self, _U32.unpack_from(self.data, 0)[0])

    def text(self, position: int) -> str:
        """The string at `position`: 32-bit length, then UTF-8."""
        start, size = self.extent(position, 1)
        if not size:
            self.charge(_TEXT_COST)
            return ""
        self.charge(_TEXT_COST + size, start, size)
        try:
            return str(self.data[start : start + size], "utf-8")
        except UnicodeDecodeError as error:
            raise BadTextError(
                f"a name or text is not UTF-8: {error.reason}",
                offset=self.file_offset + start + error.start,
                section=self.section,
            ) from None

    def extent(self, position: int, element_bytes: int) -> tuple[int, int]:
        """First byte and element count of the vector at `position`."""
        size = self.size
        if not 0 <= position <= size - 4:
            self.check(position, 4, "a vector's length")
        count: int = _U32.unpack_from(self.data, position)[0]
        if position + 4 + count * element_bytes > size:
            self.check(position + 4, count * element_bytes, f"a vector of {count} x {element_bytes} bytes")
        return position + 4, count


class Table:
    """One FlatBuffer table: slot number -> where its value is."""

    __slots__ = ("_slots", "buffer", "position", "present")

    def __init__(self, buffer: Buffer, position: int) -> None:
        size, data = buffer.size, buffer.data
        if not 0 <= position <= size - 4:
            buffer.check(position, 4, "a table")
        vtable = position - _I32.unpack_from(data, position)[0]
        if not 0 <= vtable <= size - 4:
            buffer.check(vtable, 4, "a vtable")
        # Files have a vtable for each table; most of those of a kind are alike.
        raw = bytes(data[vtable : vtable + _U16.unpack_from(data, vtable)[0]])
        table_bytes, slots, present = buffer.vtables.get(raw) or self._vtable(buffer, vtable, raw)
        if position + table_bytes > size:
            buffer.check(position, table_bytes, "a table")
        buffer.charge(_TABLE_COST, position, table_bytes)
        self.buffer = buffer
        self.position = position
        self._slots = slots
        self.present = present
        """The numbers of the slots that the file filled."""

    @staticmethod
    def _vtable(buffer: Buffer, vtable: int, raw: bytes) -> _Vtable:
        vtable_bytes: int = _U16.unpack_from(buffer.data, vtable)[0]
        table_bytes: int = _U16.unpack_from(buffer.data, vtable + 2)[0]
        if vtable_bytes < 4 or vtable_bytes % 2 or vtable_bytes > _MAX_VTABLE_BYTES or table_bytes < 4:
            raise BadTableError(
                f"a vtable says {vtable_bytes} bytes for itself and {table_bytes} for its table",
                offset=buffer.file_offset + vtable,
                section=buffer.section,
            )
        buffer.check(vtable, vtable_bytes, "a vtable")
        slots: tuple[int, ...] = struct.unpack_from(f"<{(vtable_bytes - 4) // 2}H", raw, 4)
        if slots and (max(slots) >= table_bytes or not _SMALL.isdisjoint(slots)):
            raise BadTableError(
                f"a vtable places a slot outside its table of {table_bytes} bytes",
                offset=buffer.file_offset + vtable,
                section=buffer.section,
            )
        buffer.charge(_SLOT_COST * len(slots))
        present = frozenset(number for number, slot in enumerate(slots) if slot)
        found = buffer.vtables[raw] = _Vtable(table_bytes, slots, present)
        return found

    @property
    def file_offset(self) -> int:
        """Where the table is in the file."""
        return self.buffer.file_offset + self.position

    def _at(self, slot: int, size: int) -> int | None:
        slots = self._slots
        if slot >= len(slots) or not slots[slot]:
            return None
        position = self.position + slots[slot]
        if position + size > self.buffer.size:  # it is not before the table, which is inside
            self.buffer.check(position, size, f"slot {slot} of a table")
        return position

    def u8(self, slot: int, default: int = 0) -> int:
        position = self._at(slot, 1)
        return default if position is None else self.buffer.data[position]

    def i32(self, slot: int, default: int = 0) -> int:
        position = self._at(slot, 4)
        return default if position is None else int(_I32.unpack_from(self.buffer.data, position)[0])

    def u32(self, slot: int) -> int:
        position = self._at(slot, 4)
        return 0 if position is None else int(_U32.unpack_from(self.buffer.data, position)[0])

    def u64(self, slot: int) -> int:
        position = self._at(slot, 8)
        return 0 if position is None else int(_U64.unpack_from(self.buffer.data, position)[0])

    def i64(self, slot: int) -> int:
        position = self._at(slot, 8)
        return 0 if position is None else int(_I64.unpack_from(self.buffer.data, position)[0])

    def f32(self, slot: int) -> float:
        position = self._at(slot, 4)
        return 0.0 if position is None else float(_F32.unpack_from(self.buffer.data, position)[0])

    def pair(self, slot: int) -> tuple[int, int] | None:
        """An 8-byte struct in the table itself: i32 and u32."""
        position = self._at(slot, 8)
        if position is None:
            return None
        first, second = _PAIR.unpack_from(self.buffer.data, position)
        return first, second

    def _target(self, slot: int, *, wide: bool = False) -> int | None:
        """Where an offset slot points to; FlatBuffers' null offset is absence."""
        position = self._at(slot, 8 if wide else 4)
        if position is None:
            return None
        offset: int = (_U64 if wide else _U32).unpack_from(self.buffer.data, position)[0]
        return position + offset if offset else None

    def text(self, slot: int, *, wide: bool = False) -> str:
        """A string; an absent one is empty, as the format never tells the two apart."""
        slots = self._slots
        if slot >= len(slots) or not slots[slot]:
            return ""
        position = self._target(slot, wide=wide)
        return "" if position is None else self.buffer.text(position)

    def texts(self, slot: int) -> tuple[str, ...]:
        return tuple(self.buffer.text(position) for position in self._references(slot))

    def u8s(self, slot: int, *, wide: bool = False, cost: int = 0) -> memoryview:
        """A vector of bytes, as a view into the file; `cost` is paid for each that becomes an object."""
        return self._elements(slot, 1, wide=wide, cost=cost)

    def i32s(self, slot: int, *, cost: int = 0) -> memoryview:
        """A vector of integers, as a view into the file; `cost` is paid for each that becomes an object."""
        return self._elements(slot, 4, cost=cost).cast("i")

    def i64s(self, slot: int, *, cost: int = 0) -> memoryview:
        """A vector of long integers, as a view into the file; `cost` is paid for each that becomes an object."""
        return self._elements(slot, 8, cost=cost).cast("q")

    def f32s(self, slot: int, *, cost: int = 0) -> memoryview[float]:
        """A vector of floats, as a view into the file; `cost` is paid for each that becomes an object."""
        return self._elements(slot, 4, cost=cost).cast("f")

    def short(self, slot: int, code: str, limit: int, cost: int) -> tuple[Any, ...] | None:
        """A vector of 4-byte numbers, of which models have thousands; None for more than `limit`. `cost`: of each."""
        slots, buffer = self._slots, self.buffer
        if slot >= len(slots) or not slots[slot]:
            return ()
        # As `_target` and `extent`, in one.
        data, size, position = buffer.data, buffer.size, self.position + slots[slot]
        if position + 4 > size:
            buffer.check(position, 4, f"slot {slot} of a table")
        offset = _U32.unpack_from(data, position)[0]
        if not offset:
            return ()
        position += offset + 4
        if position > size:
            buffer.check(position - 4, 4, "a vector's length")
        count: int = _U32.unpack_from(data, position - 4)[0]
        if not count:
            return ()
        if position + 4 * count > size:
            buffer.check(position, 4 * count, f"a vector of {count} x 4 bytes")
        if count > limit:
            return None
        buffer.charge(cost * count, position, 4 * count)
        return struct.unpack_from(f"<{count}{code}", data, position)

    def structs(self, slot: int, element_bytes: int) -> memoryview:
        """A vector of fixed-size structs, as bytes."""
        return self._elements(slot, element_bytes)

    def _elements(self, slot: int, element_bytes: int, *, wide: bool = False, cost: int = 0) -> memoryview:
        position = self._target(slot, wide=wide)
        if position is None:
            return memoryview(b"")
        start, count = self.buffer.extent(position, element_bytes)
        if cost and count:
            self.buffer.charge(cost * count, start, count * element_bytes)
        return self.buffer.data[start : start + count * element_bytes]

    def count(self, slot: int) -> int:
        """How many elements a vector of unknown type says that it has."""
        position = self._target(slot)
        return 0 if position is None else self.buffer.extent(position, 0)[1]

    def table(self, slot: int) -> Table | None:
        position = self._target(slot)
        return None if position is None else Table(self.buffer, position)

    def tables(self, slot: int) -> tuple[Table, ...]:
        return tuple(Table(self.buffer, position) for position in self._references(slot))

    def _references(self, slot: int) -> Iterator[int]:
        position = self._target(slot)
        if position is None:
            return
        start, count = self.buffer.extent(position, 4)
        for at in range(start, start + 4 * count, 4):
            yield at + _U32.unpack_from(self.buffer.data, at)[0]
