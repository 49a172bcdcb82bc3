"""The structs of the C API as ctypes classes, for one version of the library.

    structs = structs_for(Version.parse("1.5.2"))
    attr = structs.rknn_tensor_attr(index=0)

Pointers are plain addresses (`c_void_p`), except callbacks. Two versions share a class where its fields are the same.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from openrknn.vendor.tables.layouts import STRUCTS, Field, Struct, struct_named
from openrknn.vendor.tables.names import ENUMS
from openrknn.vendor.tables.versions import Version

CONTEXT: Any = ctypes.c_uint64 if ctypes.sizeof(ctypes.c_void_p) == 8 else ctypes.c_uint32
"""rknn_context and rknn_matmul_ctx."""

CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32
)
"""int (*)(rknn_custom_op_context*, inputs, n_inputs, outputs, n_outputs)."""
DESTROY_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
"""int (*)(rknn_custom_op_context*)."""

STRUCT_POINTERS = frozenset(STRUCTS)
"""Structs to which functions take pointers; ctypes refuses a pointer to any other struct."""

_SIMPLE: dict[str, Any] = {
    "char": ctypes.c_char,
    "int8_t": ctypes.c_int8,
    "uint8_t": ctypes.c_uint8,
    "int16_t": ctypes.c_int16,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "float": ctypes.c_float,
    "int": ctypes.c_int,
    "rknn_context": CONTEXT,
    "rknn_matmul_ctx": CONTEXT,
    "rknn_custom_op_interal_context": CONTEXT,
    "callback": CALLBACK,
    "destroy_callback": DESTROY_CALLBACK,
}


class Structs:
    """The ctypes classes of one version, by their C names."""

    def __init__(self, version: Version) -> None:
        self.version = version

    def __getattr__(self, name: str) -> type[ctypes.Structure]:
        if name not in STRUCTS:
            raise AttributeError(f"the C API has no struct {name!r}")
        made = _class_of(struct_named(name, self.version))
        setattr(self, name, made)
        return made

    def __dir__(self) -> list[str]:
        return list(STRUCTS)


@cache
def structs_for(version: Version) -> Structs:
    """The structs that a library of this version has."""
    return Structs(version)


@cache
def _class_of(struct: Struct) -> type[ctypes.Structure]:
    fields = [(field.name, _field_type(field, struct.since)) for field in struct.fields]
    return type(struct.name, (ctypes.Structure,), {"_fields_": fields, "__doc__": f"{struct.name}, {struct.since} on."})


def _field_type(field: Field, version: Version) -> Any:
    made = c_type(field.type, version)
    for length in reversed(field.array):
        made = made * length
    return made


def c_type(text: str, version: Version) -> Any:
    """The ctypes class of a C type; pointers of any kind are `c_void_p`."""
    if text.endswith("*"):
        return ctypes.c_void_p
    if text in ENUMS:
        return ctypes.c_int
    if text in STRUCTS:
        return _class_of(struct_named(text, version))
    return _SIMPLE[text]


def encoded_name(name: str) -> bytes:
    """A name for a `char[256]`."""
    data = name.encode()
    if len(data) > 255 or b"\0" in data:
        raise ValueError(f"a name has at most 255 bytes and no zero byte: {name[:40]!r}")
    return data
