"""What a message will take in memory, counted in its bytes before protobuf makes objects of them.

Two bytes can stand for an object of a hundred. So fields are counted, and what is not the bytes of a tensor is charged
at many times its size.
"""

from __future__ import annotations

from collections.abc import Iterator

from openrknn.container.protobuf import BYTES, DamagedError, spans
from openrknn.serve.errors import BadRequestError

__all__ = ["parse_memory", "parse_memory_of_load"]

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


def parse_memory(message: bytes, *, has_tensors: bool) -> int:
    """Bytes of memory that parsing a request takes, beside the message itself."""
    if not has_tensors:
        return _OBJECT_FACTOR * len(message)
    total = 0
    left = [_MOST_FIELDS]  # of the whole message: each is a step of Python
    for number, kind, value in _fields(memoryview(message), left):
        if number == _RAW_INPUTS:
            total += _RAW_FACTOR * len(value) + _OBJECT_FACTOR
        elif number == _INPUTS and kind == BYTES:
            for inner, _, part in _fields(value, left):
                total += (_NUMBER_FACTOR if inner == _CONTENTS else _OBJECT_FACTOR) * (len(part) + 2)
        else:
            total += _OBJECT_FACTOR * (len(value) + 2)
    return total


def parse_memory_of_load(message: bytes) -> int:
    """Bytes of memory that parsing a load request takes, whose parameters may be whole files."""
    total, left = 0, [_MOST_FIELDS]
    for number, kind, value in _fields(memoryview(message), left):
        if number != _PARAMETERS or kind != BYTES:
            total += _OBJECT_FACTOR * (len(value) + 2)
            continue
        for entry, form, content in _fields(value, left):
            if entry != _VALUE or form != BYTES:
                total += _OBJECT_FACTOR * (len(content) + 2)
                continue
            for inner, _, part in _fields(content, left):
                size = len(part)
                total += _FILE_FACTOR * size + _OBJECT_FACTOR if inner == _FILE else _OBJECT_FACTOR * size
    return total


def _fields(data: memoryview, left: list[int]) -> Iterator[tuple[int, int, memoryview]]:
    """Number, wire type and bytes of each field; `left` is how many the message may still have."""
    try:
        for number, kind, at, end in spans(data):
            if not left[0]:
                raise BadRequestError(f"the message has more than {_MOST_FIELDS} fields")
            left[0] -= 1
            yield number, kind, data[at:end]
    except DamagedError:
        raise BadRequestError("the message is damaged") from None
