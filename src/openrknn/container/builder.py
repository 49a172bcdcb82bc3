"""A FlatBuffer writer for the tables of a `.rknn`.

Front to back: a table is written first, then what it points to, so offsets are positive as the format wants. Equal
vtables are shared. Blobs go to the end of the buffer, aligned to 64 bytes, as the vendor's runtime expects.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial

Slot = tuple[int, bytes, "Callable[[int], int] | None", bool]
"""(number, bytes in the table, writer of what it points to, whether the offset is 64 bits wide)."""

_BLOB_ALIGNMENT = 64
_PAIR_ALIGNMENT = 8


class Builder:
    """Grows one FlatBuffer; every `*_slot` method returns a slot for `table`."""

    def __init__(self, identifier: bytes) -> None:
        self.data = bytearray(4) + bytearray(identifier)
        self._vtables: dict[bytes, int] = {}
        self._late: list[tuple[int, bytes | memoryview]] = []

    # -- slots --------------------------------------------------------------------------------------------------

    @staticmethod
    def scalar(number: int, code: str, value: float) -> Slot:
        """A number in the table itself."""
        return number, struct.pack(f"<{code}", value), None, False

    @staticmethod
    def pair(number: int, first: int, second: int) -> Slot:
        """An 8-byte struct in the table itself."""
        return number, struct.pack("<iI", first, second), None, False

    def text(self, number: int, value: str, *, wide: bool = False) -> Slot:
        return self._offset(number, lambda _: self._write_text(value), wide=wide)

    def texts(self, number: int, values: Sequence[str]) -> Slot:
        return self._offset(
            number, lambda _: self._write_references([partial(self._write_text, text) for text in values])
        )

    def numbers(self, number: int, code: str, values: Sequence[float]) -> Slot:
        """A vector of 32-bit numbers."""
        return self.raw(number, struct.pack(f"<{len(values)}{code}", *values), 4)

    def raw(self, number: int, data: bytes | memoryview, element_bytes: int) -> Slot:
        """A vector of elements that are encoded already."""
        return self._offset(number, lambda _: self._write_vector(data, element_bytes))

    def table_slot(self, number: int, slots: Iterable[Slot]) -> Slot:
        kept = list(slots)
        return self._offset(number, lambda _: self.table(kept))

    def tables(self, number: int, tables: Iterable[Iterable[Slot]]) -> Slot:
        kept = [list(slots) for slots in tables]
        return self._offset(number, lambda _: self._write_references([partial(self.table, slots) for slots in kept]))

    def blob(self, number: int, data: bytes | memoryview) -> Slot:
        """Constant data: 64-bit offset, written at the end of the buffer."""

        def later(at: int) -> int:
            self._late.append((at, data))
            return at

        return number, bytes(8), later, True

    @staticmethod
    def _offset(number: int, write: Callable[[int], int], *, wide: bool = False) -> Slot:
        return number, bytes(8 if wide else 4), write, wide

    # -- writing ------------------------------------------------------------------------------------------------

    def root(self, slots: Iterable[Slot]) -> bytes:
        """Write the root table and everything under it; the finished buffer, a multiple of 64 bytes long."""
        return b"".join(self.root_pieces(slots))

    def root_pieces(self, slots: Iterable[Slot]) -> list[bytes | memoryview]:
        """The same, one piece behind the other: blobs are those that were given, and not copied."""
        position = self.table(list(slots))
        struct.pack_into("<I", self.data, 0, position)
        size = len(self.data)
        pieces: list[bytes | memoryview] = []
        for at, data in reversed(self._late):
            before = bytes(-(size + 4) % _BLOB_ALIGNMENT)
            size += len(before)
            struct.pack_into("<Q", self.data, at, size - at)
            plain = memoryview(data).cast("B")
            pieces += [before + struct.pack("<I", len(plain)), plain]
            size += 4 + len(plain)
        return [bytes(self.data), *pieces, bytes(-size % _BLOB_ALIGNMENT)]

    def table(self, slots: Sequence[Slot]) -> int:
        """Write a table, then what its slots point to; its position."""
        places, body = _arrange(slots)
        vtable = self._vtable(places, len(body) + 4)
        self._pad(8, 4)
        position = len(self.data)
        self.data += struct.pack("<i", position - vtable) + body
        for number, _, write, wide in slots:
            if write is None:
                continue
            at = position + places[number]
            target = write(at)
            if target != at:
                struct.pack_into("<Q" if wide else "<I", self.data, at, target - at)
        return position

    def _vtable(self, places: dict[int, int], table_bytes: int) -> int:
        count = max(places, default=-1) + 1
        vtable = struct.pack(
            f"<HH{count}H", 4 + 2 * count, table_bytes, *(places.get(number, 0) for number in range(count))
        )
        if vtable not in self._vtables:
            self._pad(4)
            self._vtables[vtable] = len(self.data)
            self.data += vtable
        return self._vtables[vtable]

    def _write_text(self, value: str) -> int:
        self._pad(4)
        position = len(self.data)
        encoded = value.encode()
        self.data += struct.pack("<I", len(encoded)) + encoded + b"\0"
        return position

    def _write_vector(self, data: bytes | memoryview, element_bytes: int) -> int:
        self._pad(_PAIR_ALIGNMENT if element_bytes % 8 == 0 else 4, 4)
        position = len(self.data)
        self.data += struct.pack("<I", len(data) // element_bytes)
        self.data += data
        return position

    def _write_references(self, writers: Sequence[Callable[[], int]]) -> int:
        self._pad(4)
        position = len(self.data)
        self.data += struct.pack("<I", len(writers)) + bytes(4 * len(writers))
        for number, write in enumerate(writers):
            at = position + 4 + 4 * number
            struct.pack_into("<I", self.data, at, write() - at)
        return position

    def _pad(self, alignment: int, ahead: int = 0) -> None:
        """Zeros until `ahead` bytes further on is a multiple of `alignment`."""
        self.data += bytes(-(len(self.data) + ahead) % alignment)


def _arrange(slots: Sequence[Slot]) -> tuple[dict[int, int], bytes]:
    """Offset of each slot in the table: wide ones first, so that each is aligned to its size."""
    places: dict[int, int] = {}
    body = bytearray()
    for number, data, _, _ in sorted(slots, key=lambda slot: (-len(slot[1]), slot[0])):
        places[number] = 4 + len(body)
        body += data
    body += bytes(-len(body) % 4)
    return places, bytes(body)
