"""Reads the float constants of an ONNX file, and nothing else: the tests must not need the onnx package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_MODEL_GRAPH, _GRAPH_INITIALIZER = 7, 5
_FLOAT = 1


def constants(path: Path) -> dict[str, Floats]:
    """Name -> array, of every float32 initializer."""
    found: dict[str, Floats] = {}
    for field, graph in _fields(path.read_bytes()):
        if field != _MODEL_GRAPH or not isinstance(graph, bytes):
            continue
        for inner, tensor in _fields(graph):
            if inner == _GRAPH_INITIALIZER and isinstance(tensor, bytes):
                _add(tensor, found)
    return found


def _add(tensor: bytes, found: dict[str, Floats]) -> None:
    """The fields of a TensorProto: 1 dims, 2 type, 4 floats, 8 name, 9 raw data."""
    name, kind, data = "", 0, b""
    shape: list[int] = []
    for field, value in _fields(tensor):
        match field, value:
            case (1, int()):
                shape.append(value)
            case (1, bytes()):
                shape += _varints(value)
            case (2, int()):
                kind = value
            case (8, bytes()):
                name = value.decode()
            case (4 | 9, bytes()):
                data += value
            case _:
                pass
    if kind == _FLOAT:
        found[name] = np.frombuffer(data, "<f4").reshape(shape)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: (number, integer or bytes)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 1:
                yield key >> 3, data[at : at + 8]
                at += 8
            case 2:
                length, at = _varint(data, at)
                yield key >> 3, data[at : at + length]
                at += length
            case 5:
                yield key >> 3, data[at : at + 4]
                at += 4
            case other:
                raise ValueError(f"wire type {other}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _varints(data: bytes) -> list[int]:
    numbers, at = [], 0
    while at < len(data):
        number, at = _varint(data, at)
        numbers.append(number)
    return numbers
