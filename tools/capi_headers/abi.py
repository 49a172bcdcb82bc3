"""native/capi/abi.h: sizes of structs by version and width of pointers, and what the compiler must make of them.

What differs between versions, and so between callers that a library cannot tell apart:

- rknn_init_extend: 1.5.0 has real_model_offset and real_model_size, 2.1.0 model_buffer_fd and model_buffer_flags, 2.4.0
  user_key (and is 8 bytes longer).
- rknn_mem_size: 8 bytes before 1.4.0.
- rknn_matmul_info: three layouts of 24 bytes (1.5.0: a tensor type; 1.6.0: a matmul type) and 64 bytes (2.0.0).
- rknn_B_normal_layout_to_native_layout: before 2.1.0 it had subN, subK and type instead of info.
- rknn_matmul_create_dynamic_shape was rknn_matmul_create_dyn_shape before 2.1.0; both names are exported.
"""

from __future__ import annotations

from openrknn.capi.structs import NEWEST
from openrknn.vendor.tables.enums import MatmulType
from openrknn.vendor.tables.functions import FUNCTIONS
from openrknn.vendor.tables.layouts import ARM32, LP64, STRUCTS, place
from openrknn.vendor.tables.names import c_name
from openrknn.vendor.tables.versions import KNOWN_VERSIONS, Version
from tools.capi_headers.marshalling import QUERY_STRUCTS


def changing() -> list[str]:
    """The structs whose layout is not the same in every version."""
    return [name for name, variants in STRUCTS.items() if len(variants) > 1]


def wire_number(version: Version) -> int:
    """What HELLO says: 1.5.2 -> 10502."""
    return version.major * 10000 + version.minor * 100 + version.patch


def abi_header() -> str:
    """The text."""
    return "".join(
        [
            "/* Generated from openrknn.vendor.tables; do not edit. A test makes it again and compares. */\n",
            "#ifndef OPENRKNN_CAPI_ABI_H\n#define OPENRKNN_CAPI_ABI_H\n",
            "#include <stddef.h>\n#include <stdint.h>\n\n",
            '#include "include/rknn_custom_op.h"\n#include "include/rknn_matmul_api.h"\n\n',
            f'#define NEWEST_ABI "{NEWEST}"\n\n',
            _sizes(),
            _widths(),
            _queries(),
            _matrices(),
            _since(),
            "#endif\n",
        ]
    )


def _sizes() -> str:
    fields = "".join(f"    uint16_t {name};\n" for name in changing())
    return (
        "/* The version that a program was compiled for, and the sizes of the structs that differ. */\n"
        f"struct abi {{\n    uint32_t number;\n    const char *name;\n{fields}}};\n\n"
    )


def _widths() -> str:
    texts = []
    for word, pointer in (("#if UINTPTR_MAX > 0xffffffff", LP64), ("#else", ARM32)):
        rows = " \\\n".join(_row(version, pointer) for version in KNOWN_VERSIONS)
        texts.append(f"{word}\n#define KNOWN_ABIS \\\n{rows}\n\n{_asserts(pointer)}")
    return "".join(texts) + "#endif\n\n"


def _row(version: Version, pointer: int) -> str:
    sizes = ", ".join(str(place(name, version, pointer).size_bytes) for name in changing())
    return f'    {{{wire_number(version)}, "{version}", {sizes}}},'


def _asserts(pointer: int) -> str:
    lines = []
    for name in STRUCTS:
        found = place(name, NEWEST, pointer)
        lines.append(f'_Static_assert(sizeof({name}) == {found.size_bytes}, "{name}");\n')
        lines += [
            f'_Static_assert(offsetof({name}, {field}) == {at}, "{name}.{field}");\n'
            for field, at in found.offsets.items()
        ]
    return "".join(lines)


def _queries() -> str:
    rows = "".join(
        f"    case {c_name(command)}: return {size_of(name)}; \\\n" for command, name in sorted(QUERY_STRUCTS.items())
    )
    return f"/* How much of `info` the engine may have to see. */\n#define QUERY_SIZES(abi) \\\n{rows}\n"


def size_of(name: str) -> str:
    """The size of a struct as C writes it, for the caller's version."""
    return f"(abi)->{name}" if name in changing() else f"sizeof({name})"


def _matrices() -> str:
    """Bits of an element of B."""
    rows = "".join(f"    case {c_name(kind)}: return {kind.types[1].bits}; \\\n" for kind in MatmulType)
    return f"/* Bits of an element of B. */\n#define MATRIX_B_BITS \\\n{rows}\n"


def _since() -> str:
    """The versions at which the handwritten functions have to look."""
    newer = FUNCTIONS["rknn_B_normal_layout_to_native_layout"].newest.since
    offsets, buffers, keys = (variant.since for variant in STRUCTS["rknn_init_extend"][1:])
    return (
        f"enum {{ ABI_B_TAKES_INFO = {wire_number(newer)}, ABI_MODEL_OFFSET = {wire_number(offsets)}, "
        f"ABI_MODEL_BUFFER = {wire_number(buffers)}, ABI_USER_KEY = {wire_number(keys)} }};\n\n"
    )
