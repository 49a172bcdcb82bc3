"""The small part of BSON in which a `.rknn` keeps an operator's attributes, read and written.

BSON is length-prefixed key/value data (bsonspec.org). The general library for it is a database driver; the files
use six of its types, and a hostile file must give a `BadTextError`, so sixty lines here are the lighter choice.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from openrknn.errors import BadTextError

Value: TypeAlias = "bool | int | float | str | bytes | Sequence[Value] | Mapping[str, Value] | None"

_MAX_DEPTH = 16
_DOUBLE, _TEXT, _DOCUMENT, _ARRAY, _BINARY, _BOOL, _NULL, _I32, _I64 = 1, 2, 3, 4, 5, 8, 10, 16, 18


def decode(data: bytes, *, offset: int = 0, section: str = "attributes") -> dict[str, Value]:
    """The document in `data`; `offset` is where it is in the file, for error messages."""
    try:
        document, end = _document(data, 0, 0)
    except (struct.error, IndexError, ValueError, UnicodeDecodeError) as error:
        raise BadTextError(f"damaged BSON: {error}", offset=offset, section=section) from None
    if end != len(data):
        raise BadTextError(f"BSON of {end} bytes in {len(data)}", offset=offset, section=section)
    return document


def _document(data: bytes, start: int, depth: int) -> tuple[dict[str, Value], int]:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    size = struct.unpack_from("<i", data, start)[0]
    end = start + size
    if size < 5 or end > len(data) or data[end - 1] != 0:
        raise ValueError(f"a document of {size} bytes at {start}")
    at = start + 4
    result: dict[str, Value] = {}
    while data[at]:
        code = data[at]
        stop = data.index(0, at + 1, end)
        key = str(data[at + 1 : stop], "utf-8")
        result[key], at = _value(data, code, stop + 1, depth)
        if at >= end:
            raise ValueError(f"{key!r} runs past its document")
    if at != end - 1:
        raise ValueError(f"a document ends at {at}, not {end - 1}")
    return result, end


def _value(data: bytes, code: int, at: int, depth: int) -> tuple[Value, int]:
    match code:
        case 1:
            return struct.unpack_from("<d", data, at)[0], at + 8
        case 2:
            size = struct.unpack_from("<i", data, at)[0]
            if size < 1 or at + 4 + size > len(data):
                raise ValueError(f"a text of {size} bytes")
            return str(data[at + 4 : at + 3 + size], "utf-8"), at + 4 + size
        case 3:
            return _document(data, at, depth + 1)
        case 4:
            document, end = _document(data, at, depth + 1)
            return list(document.values()), end
        case 5:
            size = struct.unpack_from("<i", data, at)[0]
            if size < 0 or at + 5 + size > len(data):
                raise ValueError(f"{size} bytes of binary data")
            return data[at + 5 : at + 5 + size], at + 5 + size
        case 8:
            return bool(data[at]), at + 1
        case 10:
            return None, at
        case 16:
            return struct.unpack_from("<i", data, at)[0], at + 4
        case 18:
            return struct.unpack_from("<q", data, at)[0], at + 8
        case _:
            raise ValueError(f"type {code:#x} is not used in .rknn files")


def encode(document: Mapping[str, Value]) -> bytes:
    """`document` as BSON; integers take 32 bits where they fit, as the vendor's toolkit writes them."""
    body = b"".join(_element(key, value) for key, value in document.items())
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def _element(key: str, value: Value) -> bytes:
    code, data = _encoded(value)
    return bytes([code]) + key.encode() + b"\0" + data


def _encoded(value: Value) -> tuple[int, bytes]:
    match value:
        case None:
            return _NULL, b""
        case bool():
            return _BOOL, bytes([value])
        case int() if -(2**31) <= value < 2**31:
            return _I32, struct.pack("<i", value)
        case int():
            return _I64, struct.pack("<q", value)
        case float():
            return _DOUBLE, struct.pack("<d", value)
        case str():
            text = value.encode()
            return _TEXT, struct.pack("<i", len(text) + 1) + text + b"\0"
        case bytes():
            return _BINARY, struct.pack("<iB", len(value), 0) + value
        case Mapping():
            return _DOCUMENT, encode(value)
        case _:
            return _ARRAY, encode({str(index): item for index, item in enumerate(value)})
