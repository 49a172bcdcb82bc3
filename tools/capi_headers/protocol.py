"""native/capi/protocol.h: the packets of `openrknn.capi.wire` in C."""

from __future__ import annotations

from openrknn.capi import wire

_C_SIZES = {"uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8}


def protocol_header() -> str:
    """The text."""
    operations = "".join(f"    OP_{one.name} = {one.value},{_comment(wire.LAYOUT[one])}\n" for one in wire.Operation)
    phases = ", ".join(f"PHASE_{one.name} = {one.value}" for one in wire.Phase)
    return "".join(
        [
            "/* Generated from openrknn.capi.wire; do not edit. A test makes it again and compares. */\n",
            "#ifndef OPENRKNN_CAPI_PROTOCOL_H\n#define OPENRKNN_CAPI_PROTOCOL_H\n",
            "#include <stddef.h>\n#include <stdint.h>\n\n",
            f"#define WIRE_VERSION {wire.WIRE_VERSION:#010x}\n",
            f'#define SOCKET_NAME "{wire.socket_name()}"\n',
            f'#define SOCKET_VARIABLE "{wire.SOCKET_VARIABLE}"\n',
            f'#define ENGINE_VARIABLE "{wire.ENGINE_VARIABLE}"\n',
            f"enum {{ LARGEST_PACKET = {wire.LARGEST_PACKET}, MOST_DESCRIPTORS = {wire.MOST_DESCRIPTORS} }};\n\n",
            f"enum operation {{\n{operations}}};\n\n",
            f"enum phase {{ {phases} }};\n",
            *(_header(name) for name in wire.FIELDS),
            "\n#endif\n",
        ]
    )


def _comment(text: str) -> str:
    return f" /* {text} */" if text else ""


def _header(name: str) -> str:
    fields = "".join(f"    {kind} {field};\n" for kind, field in wire.FIELDS[name])
    size = sum(_C_SIZES[kind] for kind, _ in wire.FIELDS[name])
    return f'\nstruct {name} {{\n{fields}}};\n_Static_assert(sizeof(struct {name}) == {size}, "{name}");\n'
