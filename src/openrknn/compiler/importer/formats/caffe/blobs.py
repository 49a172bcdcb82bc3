"""The weights of a `.caffemodel`: protobuf's wire format, of which only names and arrays are needed.

    NetParameter:      layers 2 (V1), layer 100
    LayerParameter:    name 1, blobs 7            V1LayerParameter: name 4, blobs 6
    BlobProto:         num 1, channels 2, height 3, width 4, data 5, shape 7 (dim 1), double_data 8
"""

from __future__ import annotations

import math

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.assembly import Array
from openrknn.container.protobuf import DamagedError, fields, varint

_LAYER, _LAYER_V1 = 100, 2
_MOST_LAYERS, _MOST_BLOBS, _MOST_AXES = 100_000, 64, 32


def read_blobs(data: bytes, file: str) -> dict[str, list[Array]]:
    """Layer -> its arrays; layers without any are left out."""
    try:
        return _net(memoryview(data))
    except DamagedError as error:
        raise ModelError(f"{file} is not a .caffemodel, or is cut off: {error}") from None


def _net(data: memoryview) -> dict[str, list[Array]]:
    found: dict[str, list[Array]] = {}
    count = 0
    for number, _, value in fields(data):
        if number not in {_LAYER, _LAYER_V1} or not isinstance(value, memoryview):
            continue
        count += 1
        if count > _MOST_LAYERS:
            raise DamagedError(f"more than {_MOST_LAYERS} layers")
        name, blobs = _layer(value, *((1, 7) if number == _LAYER else (4, 6)))
        if blobs:
            found[name] = blobs
    if not count:
        raise DamagedError("there are no layers in it")
    return found


def _layer(data: memoryview, name_at: int, blobs_at: int) -> tuple[str, list[Array]]:
    name, blobs = "", []
    for number, _, value in fields(data):
        if not isinstance(value, memoryview):
            continue
        if number == name_at:
            name = bytes(value).decode("utf-8", "replace")
        elif number == blobs_at:
            blobs.append(_blob(value))
            if len(blobs) > _MOST_BLOBS:
                raise DamagedError(f"layer {name!r} has more than {_MOST_BLOBS} arrays")
    return name, blobs


def _blob(data: memoryview) -> Array:
    old = {1: 0, 2: 0, 3: 0, 4: 0}
    shape: list[int] | None = None
    parts: list[Array] = []
    for number, _, value in fields(data):
        if number in old and isinstance(value, int):
            old[number] = value
        elif number == 7 and isinstance(value, memoryview):
            shape = _dims(value)
        elif number in {5, 8}:
            kind = "<f4" if number == 5 else "<f8"
            size = np.dtype(kind).itemsize
            if not isinstance(value, memoryview) or len(value) % size:
                raise DamagedError("an array of floats has half a float at its end")
            parts.append(np.frombuffer(value, kind))
    numbers = parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else np.zeros(0, np.float32)
    sizes = shape if shape is not None else [old[1], old[2], old[3], old[4]] if any(old.values()) else [len(numbers)]
    if math.prod(sizes) != len(numbers):
        raise DamagedError(f"an array of {len(numbers)} numbers says that it is {sizes}")
    return numbers.astype(np.float32).reshape(sizes)


def _dims(data: memoryview) -> list[int]:
    found: list[int] = []
    for number, _, value in fields(data):
        if number != 1:
            continue
        if isinstance(value, int):
            found.append(value)
        else:
            at = 0
            while at < len(value) and len(found) <= _MOST_AXES:
                size, at = varint(value, at)
                found.append(size)
        if len(found) > _MOST_AXES:
            raise DamagedError(f"an array has more than {_MOST_AXES} dimensions")
    return found
