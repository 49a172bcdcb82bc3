"""The C header of the preload library, generated from the tables.

    python -m openrknn.fakekernel.c_header > native/preload/tables.h
"""

from __future__ import annotations

import functools
import sys
import zlib
from collections.abc import Callable, Iterable

from openrknn.fakekernel import protocol
from openrknn.uapi.ioctl import Array, Descriptor, Ioctl
from openrknn.uapi.layout import Struct
from openrknn.uapi.tables import DMA_BUF, TABLES

__all__ = ["header", "version"]

_WHEN = {"always": "WHEN_ALWAYS", "positive": "WHEN_POSITIVE", "flag": "WHEN_FLAG"}
_TOP = """\
/* Generated from openrknn.uapi and openrknn.fakekernel.protocol; do not edit. A test makes it again and compares. */
#ifndef OPENRKNN_PRELOAD_TABLES_H
#define OPENRKNN_PRELOAD_TABLES_H
#include <stddef.h>
#include <stdint.h>

#define TABLES_VERSION "{version:08x}" /* the library and the server must have the same */
"""
_TYPES = """
enum { WHEN_ALWAYS, WHEN_POSITIVE, WHEN_FLAG };
enum { NO_FIELD = 0xffff };

/* What holds for programs with 64-bit pointers, and for the others. */
#define WORD(wide, narrow) (sizeof(void *) == 8 ? (wide) : (narrow))

/* A pointer at offset `at` to `count` (a field) elements, `stride` (a field) or `element` bytes apart. With a `mask`
   it is one only if the field `flags` has a bit of it. */
struct array_rule {
    uint16_t at, count, stride, element, child, children, flags, mask;
    uint8_t pointer_bytes, count_bytes, out;
};

/* A descriptor at offset `at`, passed in according to `when` (WHEN_FLAG: the field `flags` has a bit of `mask`), or
   opened by the kernel. */
struct descriptor_rule { uint16_t at, flags; uint32_t mask; uint8_t when, out; };

/* An ioctl; rules are ranges of the arrays below, and need an argument of at least `least` bytes. */
struct ioctl_rule { uint8_t type, number; uint16_t array, arrays, descriptor, descriptors, least; };

struct kind_rule { uint16_t ioctl, ioctls; };
"""


class _Rows:
    """Rows of the three arrays; a rule refers to a range of them."""

    def __init__(self) -> None:
        self.arrays: list[str] = []
        self.descriptors: list[str] = []
        self.ioctls: list[str] = []
        self._known: dict[tuple[str, ...], int] = {}

    def add_arrays(self, arrays: tuple[Array, ...], struct: Struct) -> int:
        """Place the rules of one struct side by side, their children before them; the number of the first."""
        children = [self.add_arrays(a.inside, a.element) if isinstance(a.element, Struct) else 0 for a in arrays]
        rows = [_array(array, struct, child) for array, child in zip(arrays, children, strict=True)]
        return self._place(self.arrays, rows)

    def add_ioctl(self, ioctl: Ioctl) -> None:
        array = self.add_arrays(ioctl.arrays, ioctl.argument)
        rows = [_descriptor(descriptor, ioctl.argument) for descriptor in ioctl.descriptors]
        descriptor = self._place(self.descriptors, rows)
        numbers = f"{array}, {len(ioctl.arrays)}, {descriptor}, {len(rows)}, {_least(ioctl)}"
        self.ioctls.append(f"{{'{ioctl.type}', {ioctl.number:#04x}, {numbers}}}, /* {ioctl.name} */")

    def _place(self, rows: list[str], new: list[str]) -> int:
        """Equal rules are stored once."""
        if not new:
            return 0
        at = self._known.setdefault(tuple(new), len(rows))
        if at == len(rows):
            rows.extend(new)
        return at


def _least(ioctl: Ioctl) -> str:
    """The end of the last field that a rule speaks of."""
    used = {name for array in ioctl.arrays for name in (array.pointer, array.count, array.stride, array.flags) if name}
    own = [descriptor for descriptor in ioctl.descriptors if descriptor.array is None]
    used |= {name for descriptor in own for name in (descriptor.field, descriptor.flags) if name}
    if not used:
        return "0"
    return _number(ioctl.argument, lambda struct: max(struct.offsets[n] + struct.field(n).element_bytes for n in used))


def _number(struct: Struct, value: Callable[[Struct], int]) -> str:
    """A number that follows from the struct, as a constant in C."""
    wide, narrow = value(struct), value(struct.narrow)
    return f"{wide}" if wide == narrow else f"WORD({wide}, {narrow})"


def _place(struct: Struct, name: str) -> str:
    return _number(struct, lambda one: one.offsets[name])


def _width(struct: Struct, name: str) -> str:
    return _number(struct, lambda one: one.field(name).element_bytes)


def _array(array: Array, struct: Struct, child: int) -> str:
    stride = _place(struct, array.stride) if array.stride else "NO_FIELD"
    places = f"{_place(struct, array.pointer)}, {_place(struct, array.count)}, {stride}, {array.element_bytes}"
    widths = f"{_width(struct, array.pointer)}, {_width(struct, array.count)}"
    condition = f"{_place(struct, array.flags) if array.flags else 'NO_FIELD'}, {array.mask:#x}"
    numbers = f"{places}, {child}, {len(array.inside)}, {condition}, {widths}, {int(array.out)}"
    return f"{{{numbers}}}, /* {struct.name}.{array.pointer} */"


def _descriptor(descriptor: Descriptor, struct: Struct) -> str:
    flags = f"{struct.offsets[descriptor.flags]}" if descriptor.flags else "NO_FIELD"
    owner, at = struct, 0
    if descriptor.array is not None:
        # In the payload the first array follows the argument and its own length.
        assert isinstance(descriptor.array.element, Struct)
        owner, at = descriptor.array.element, struct.size + protocol.LENGTH.size
    place = f"{at + owner.offsets[descriptor.field]}, {flags}, {descriptor.mask:#x}, {_WHEN[descriptor.when]}"
    return f"{{{place}, {int(descriptor.out)}}}, /* {owner.name}.{descriptor.field} */"


def header() -> str:
    """The text of native/preload/tables.h."""
    return _TOP.format(version=version()) + _body()


@functools.cache
def version() -> int:
    """A number that changes with the tables."""
    return zlib.crc32(_body().encode())


def _body() -> str:
    rows, kinds = _Rows(), []
    for table in TABLES:
        kinds.append(f"{{{len(rows.ioctls)}, {len(table.ioctls)}}}, /* {table.name} */")
        for ioctl in table.ioctls:
            rows.add_ioctl(ioctl)
    ops = ", ".join(f"OP_{op.name} = {op.value}" for op in protocol.Op)
    types = sorted({ioctl.type for table in TABLES for ioctl in table.ioctls})
    parts = [
        f"enum {{ {ops} }};\n",
        f"enum {{ KIND_BITS = {protocol.KIND_BITS}, NO_KIND = {protocol.NO_KIND:#x}, "
        f"NOT_INHERITED = {protocol.NOT_INHERITED}, CLOSE_ON_EXEC = {protocol.CLOSE_ON_EXEC}, "
        f"TAKE_BYTE = {protocol.TAKE_BYTE} }};\n",
        f"enum {{ KIND_DMA_BUF = {TABLES.index(DMA_BUF)}, MAX_PAYLOAD = {protocol.MAX_PAYLOAD:#x} }};\n",
        f"#define BUFFER_KEY {protocol.BUFFER_KEY:#x}ull\n",
        f"#define IOCTL_TYPES \"{''.join(types)}\"\n",
        f"#define BUFFER_TYPE '{DMA_BUF.ioctls[0].type}'\n",
        f'#define ENVIRONMENT "{protocol.ENVIRONMENT}"\n',
        f'#define OLD_ENVIRONMENT "{protocol.OLD_ENVIRONMENT}" /* if its value is a path */\n',
        f'#define SPY_ENVIRONMENT "{protocol.SPY_ENVIRONMENT}"\n',
        f'#define OPEN_ENVIRONMENT "{protocol.OPEN_ENVIRONMENT}"\n',
        f"#define OPEN_NAMES {', '.join(f'{chr(34)}{name}{chr(34)}' for name in protocol.OPEN_NAMES)}\n\n",
        *(_checked(struct) for struct in protocol.HEADERS),
        _TYPES,
        _table("struct array_rule array_rules", rows.arrays),
        _table("struct descriptor_rule descriptor_rules", rows.descriptors),
        _table("struct ioctl_rule ioctl_rules", rows.ioctls),
        _table("struct kind_rule kind_rules", kinds),
        "\n#endif\n",
    ]
    return "".join(parts)


def _checked(struct: Struct) -> str:
    """A declaration, and what the compiler must make of it."""
    places = "".join(
        f'_Static_assert(offsetof(struct {struct.name}, {name}) == {at}, "{struct.name}.{name}");\n'
        for name, at in struct.offsets.items()
    )
    size = f'_Static_assert(sizeof(struct {struct.name}) == {struct.size}, "{struct.name}");\n'
    return struct.declaration + size + places


def _table(name: str, rows: Iterable[str]) -> str:
    return f"\nstatic const {name}[] = {{\n" + "".join(f"    {row}\n" for row in rows) + "};\n"


if __name__ == "__main__":
    sys.stdout.write(header())
