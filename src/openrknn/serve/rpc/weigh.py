"""What a message will take in memory, counted in its bytes before protobuf makes objects of them.

Two bytes can stand for an object of a hundred. So fields are counted, and what is not the bytes of a tensor is charged
at many times its size.
"""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.serve.errors import BadRequestError

__all__ = ["weigh", "weigh_files"]

_MOST_FIELDS = 8192
_OBJECT_FACTOR = 64
"""Memory per byte of names, parameters and empty objects; an empty entry of a list takes about 100 bytes for two."""
_NUMBER_FACTOR = 16
"""Of numbers that are written one by one: a byte becomes eight, and eight more in the array."""
_RAW_FACTOR = 1
_INPUTS, _RAW_INPUTS, _CONTENTS = 5, 7, 5
"""Numbers of fields: ModelInferRequest.inputs, .raw_input_contents, InferInputTensor.contents."""
_PARAMETERS, _VALUE, _FILE = 3, 2, 4
"""RepositoryModelLoadRequest.parameters, the value of an entry, ModelRepositoryParameter.bytes_param."""
_FILE_FACTOR = 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def weigh(message: bytes, *, has_tensors: bool) -> int:
    """Bytes of memory that parsing a request takes, beside the message itself."""
    if not has_tensors:
        return _OBJECT_FACTOR * len(message)
    total = 0
    left = [_MOST_FIELDS]  # of the whole message: each is a step of Python
    for number, at, size in _fields(message, 0, len(message), left):
        if number == _RAW_INPUTS:
            total += _RAW_FACTOR * size + _OBJECT_FACTOR
        elif number == _INPUTS:
            for inner, _, inner_size in _fields(message, at, at + size, left):
                total += (_NUMBER_FACTOR if inner == _CONTENTS else _OBJECT_FACTOR) * (inner_size + 2)
        else:
            total += _OBJECT_FACTOR * (size + 2)
    return total


def weigh_files(message: bytes) -> int:
    """The same for a load request, whose parameters may be whole files."""
    total, left = 0, [_MOST_FIELDS]
    for number, at, size in _fields(message, 0, len(message), left):
        if number != _PARAMETERS:
            total += _OBJECT_FACTOR * (size + 2)
            continue
        for entry, place, entry_size in _fields(message, at, at + size, left):
            if entry != _VALUE:
                total += _OBJECT_FACTOR * (entry_size + 2)
                continue
            for inner, _, inner_size in _fields(message, place, place + entry_size, left):
                total += _FILE_FACTOR * inner_size + _OBJECT_FACTOR if inner == _FILE else _OBJECT_FACTOR * inner_size
    return total


def _fields(data: bytes, at: int, end: int, left: list[int]) -> Iterator[tuple[int, int, int]]:
    """Number, place and size of each field."""
    while left[0]:
        if at == end:
            return
        left[0] -= 1
        key, at = _varint(data, at, end)
        kind = key & 7
        if kind == _BYTES:
            size, at = _varint(data, at, end)
        elif kind == _VARINT:
            size = _varint(data, at, end)[1] - at
        elif kind in {_FIXED64, _FIXED32}:
            size = 8 if kind == _FIXED64 else 4
        else:
            raise _damaged()
        if size > end - at:
            raise _damaged()
        yield key >> 3, at, size
        at += size
    raise BadRequestError(f"the message has more than {_MOST_FIELDS} fields")


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise _damaged()


def _damaged() -> BadRequestError:
    return BadRequestError("the message is damaged")
