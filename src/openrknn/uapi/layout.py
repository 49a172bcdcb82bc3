"""Memory layout of the argument of an ioctl: fields with natural alignment, as a C compiler places them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

__all__ = ["Field", "Struct"]

_CODES = {"u8": "B", "u16": "H", "u32": "I", "s32": "i", "u64": "Q", "s64": "q", "word": "Q"}
_C_SIGNS = {"u": "uint", "s": "int"}


@dataclass(frozen=True, slots=True)
class Field:
    """One member; `count` > 1 makes it an array, whose elements are called name0, name1, ..."""

    name: str
    type: str = "u32"
    """u8, u16, u32, s32, u64, s64, or word: a pointer or size_t, 64 bits wide unless the struct is narrow."""
    note: str = ""
    count: int = 1

    @property
    def code(self) -> str:
        return _CODES[self.type]

    @property
    def element_bytes(self) -> int:
        return struct.calcsize(self.code)

    @property
    def declaration(self) -> str:
        """The member in C."""
        c_type = "uintptr_t" if self.type == "word" else f"{_C_SIGNS[self.type[0]]}{self.type[1:]}_t"
        return f"{c_type} {self.name}" + (f"[{self.count}]" if self.count > 1 else "") + ";"


@dataclass(frozen=True)
class Struct:
    """Fields in order. `packed` leaves no gaps; everything else is aligned as on x86-64 and on Arm, 32-bit Arm too."""

    name: str
    fields: tuple[Field, ...]
    packed: bool = False

    @cached_property
    def offsets(self) -> Mapping[str, int]:
        """Where each field starts."""
        offsets, at = {}, 0
        for field in self.fields:
            at += self._gap(at, field.element_bytes)
            offsets[field.name] = at
            at += field.element_bytes * field.count
        return offsets

    @cached_property
    def size(self) -> int:
        """sizeof"""
        return self.codec.size

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One name for each value, arrays spelled out."""
        return tuple(
            field.name if field.count == 1 else f"{field.name}{index}"
            for field in self.fields
            for index in range(field.count)
        )

    @cached_property
    def narrow(self) -> Struct:
        """As programs of 32-bit machines have it."""
        if all(field.type != "word" for field in self.fields):
            return self
        fields = tuple(replace(field, type="u32") if field.type == "word" else field for field in self.fields)
        return replace(self, fields=fields)

    def field(self, name: str) -> Field:
        """The field of this name."""
        return next(field for field in self.fields if field.name == name)

    def unpack(self, data: bytes | bytearray | memoryview, offset: int = 0) -> dict[str, int]:
        """The values by name. A shorter argument (an older program) reads as zeros at its end, as in the kernel."""
        if len(data) - offset < self.size:
            data, offset = bytes(data[offset:]).ljust(self.size, b"\0"), 0
        return dict(zip(self.names, self.codec.unpack_from(data, offset)))  # noqa: B905 (many per inference)

    def pack(self, values: Mapping[str, int]) -> bytes:
        """Bytes of the values; what is not named is 0."""
        unknown = values.keys() - set(self.names)
        if unknown:
            raise ValueError(f"{self.name} has no field {', '.join(sorted(unknown))}")
        return self.codec.pack(*(values.get(name, 0) for name in self.names))

    def pack_all(self, values: Mapping[str, int]) -> bytes:
        """Like `pack`, for values that `unpack` gave: all of them are there. It is faster."""
        return self.codec.pack(*map(values.__getitem__, self.names))

    @cached_property
    def declaration(self) -> str:
        """The struct in C."""
        members = "".join(f"    {field.declaration}\n" for field in self.fields)
        return f"struct {self.name} {{\n{members}}}{' __attribute__((packed))' if self.packed else ''};\n"

    @cached_property
    def codec(self) -> struct.Struct:
        """Packs and unpacks the values in order."""
        code, at, widest = "<", 0, 1
        for field in self.fields:
            gap = self._gap(at, field.element_bytes)
            code += f"{gap}x" * bool(gap) + f"{field.count}{field.code}" * bool(field.count)
            at += gap + field.element_bytes * field.count
            widest = max(widest, field.element_bytes)
        tail = self._gap(at, widest)
        return struct.Struct(code + f"{tail}x" * bool(tail))

    def _gap(self, at: int, alignment: int) -> int:
        return 0 if self.packed else -at % alignment
