"""The structs of the C API as a table: fields in order, with their C types; sizes and offsets follow from these.

Facts: headers of v2.3.2; older and newer variants from the headers of 1.3.0, 1.5.2, 1.6.0 and 2.0.0-beta0, and from the
ctypes classes in the vendor's Python wheel 2.5.0. Every size and offset is compared with a C compiler's (64 bits) and
with the reference (64 bits and 32-bit Arm).

A line is a C declaration and, after two blanks, its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from openrknn.vendor.tables.declarations import TABLE
from openrknn.vendor.tables.names import ENUMS, LIMITS
from openrknn.vendor.tables.versions import Version

LP64 = 8
"""Bytes of a pointer on 64-bit Arm."""
ARM32 = 4
"""Bytes of a pointer on 32-bit Arm: RV1103 and RV1106, and 32-bit systems on the others."""

_DECLARATION = re.compile(r"^(?P<type>[\w]+\*?) (?P<name>\w+)(?P<array>(?:\[\w+\])*)$")
_SIZES = {
    "char": 1, "int8_t": 1, "uint8_t": 1, "int16_t": 2, "int32_t": 4, "uint32_t": 4, "int64_t": 8, "uint64_t": 8,
    "float": 4, "int": 4,
}  # fmt: skip
_POINTER_SIZED = ("rknn_context", "rknn_custom_op_interal_context", "callback", "destroy_callback")
"""Integers and functions that are as wide as a pointer: on 32-bit Arm rknn_context is a uint32_t."""


@dataclass(frozen=True, slots=True)
class Field:
    """One member of a struct."""

    name: str
    type: str
    """A C type; "callback" and "destroy_callback" are the two kinds of functions that a custom operator has."""
    array: tuple[int, ...]
    meaning: str

    @property
    def elements(self) -> int:
        count = 1
        for length in self.array:
            count *= length
        return count


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct as one range of versions has it."""

    name: str
    since: Version
    """The first version with these fields."""
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the members of a struct lie."""

    size_bytes: int
    alignment: int
    offsets: Mapping[str, int]


def _fields(text: str) -> tuple[Field, ...]:
    rows = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in text.strip().splitlines()]
    return tuple(_field(declaration, *meaning) for declaration, *meaning in rows)


def _field(declaration: str, meaning: str = "") -> Field:
    match = _DECLARATION.match(declaration)
    if not match:
        raise ValueError(f"not a declaration: {declaration!r}")
    lengths = re.findall(r"\[(\w+)\]", match["array"])
    array = tuple(int(length) if length.isdigit() else LIMITS[length] for length in lengths)
    return Field(match["name"], match["type"], array, meaning)


STRUCTS: Mapping[str, tuple[Struct, ...]] = MappingProxyType(
    {
        name: tuple(Struct(name, Version.parse(since), _fields(text)) for since, text in variants.items())
        for name, variants in TABLE.items()
    }
)
"""Name -> its variants, oldest first."""


def struct_named(name: str, version: Version) -> Struct:
    """The variant that a library of this version has; of a struct that is younger than the library, the oldest."""
    variants = STRUCTS[name]
    return next((variant for variant in reversed(variants) if variant.since <= version), variants[0])


def place(name: str, version: Version, pointer_bytes: int = LP64) -> Place:
    """Sizes and offsets by the rule of both ABIs: each member is aligned to its own size, a struct to its widest."""
    offset, widest, offsets = 0, 1, {}
    for field in struct_named(name, version).fields:
        size, alignment = _extent(field.type, version, pointer_bytes)
        offset = -(-offset // alignment) * alignment
        offsets[field.name] = offset
        offset += size * field.elements
        widest = max(widest, alignment)
    return Place(-(-offset // widest) * widest, widest, MappingProxyType(offsets))


def _extent(kind: str, version: Version, pointer_bytes: int) -> tuple[int, int]:
    """Size and alignment of one element."""
    if kind in STRUCTS:
        inner = place(kind, version, pointer_bytes)
        return inner.size_bytes, inner.alignment
    if kind.endswith("*") or kind in _POINTER_SIZED:
        return pointer_bytes, pointer_bytes
    size = _SIZES["int"] if kind in ENUMS else _SIZES[kind]
    return size, size
