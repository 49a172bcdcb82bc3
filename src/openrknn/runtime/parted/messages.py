"""Messages between a session and the process that runs its CPU parts: a JSON object, and the bytes of arrays behind it.

Nothing is unpickled: a process that a hostile model has taken over can answer with wrong numbers only.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

_HEADER = struct.Struct("<IQ")
_LARGEST_TEXT = 64 << 20


class ClosedError(Exception):
    """The other side is gone, or sends what is no message."""


class SlowError(Exception):
    """No answer in time."""


def send(connection: socket.socket, words: dict[str, Any], values: Sequence[Any] = ()) -> None:
    """One message."""
    arrays: list[Any] = []
    text = json.dumps({**words, "values": [_described(value, arrays) for value in values]}).encode()
    size = sum(array.nbytes for array in arrays)
    try:
        connection.settimeout(None)
        connection.sendall(_HEADER.pack(len(text), size) + text)
        for array in arrays:
            connection.sendall(array.reshape(-1).view(np.uint8).data if array.size else b"")
    except OSError as error:
        raise ClosedError(str(error)) from None


def receive(connection: socket.socket, seconds: float | None = None) -> tuple[dict[str, Any], list[Any]]:
    """One message, within `seconds`."""
    end = None if seconds is None else time.monotonic() + seconds
    length, size = _HEADER.unpack(_read(connection, _HEADER.size, end))
    if length > _LARGEST_TEXT:
        raise ClosedError("a message without sense")
    text = bytes(_read(connection, length, end))
    data = _read(connection, size, end) if size else bytearray()
    try:
        words = json.loads(text)
        place = [0]
        return words, [_value(entry, memoryview(data), place) for entry in words.pop("values")]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ClosedError(f"a message without sense: {error}") from None


def _read(connection: socket.socket, size: int, end: float | None) -> bytearray:
    try:
        data = bytearray(size)
    except (MemoryError, OverflowError):
        raise ClosedError(f"a message of {size} bytes") from None
    at = 0
    while at < size:
        try:
            connection.settimeout(None if end is None else max(end - time.monotonic(), 1e-3))
            count = connection.recv_into(memoryview(data)[at:])
        except TimeoutError:
            raise SlowError from None
        except OSError as error:
            raise ClosedError(str(error)) from None
        if not count:
            raise ClosedError("the connection was closed")
        at += count
    return data


def _described(value: Any, arrays: list[Any]) -> Any:
    """Arrays of numbers go behind the text; texts, sequences and what is left out are in it."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        return {"list": [_described(one, arrays) for one in value]}
    array = np.asarray(value)
    if array.dtype.kind in "OUS":
        return {"texts": [str(one) for one in array.reshape(-1).tolist()], "shape": array.shape}
    arrays.append(np.ascontiguousarray(array))
    return {"type": array.dtype.str, "shape": array.shape}


def _value(entry: Any, data: memoryview, place: list[int]) -> Any:
    if entry is None:
        return None
    if "list" in entry:
        return [_value(one, data, place) for one in entry["list"]]
    shape = tuple(int(size) for size in entry["shape"])
    if "texts" in entry:
        return np.array([str(one) for one in entry["texts"]], object).reshape(shape)
    kind = np.dtype(entry["type"])
    if kind.hasobject:
        raise ValueError("objects")
    count = math.prod(shape)
    found = np.frombuffer(data, kind, count, place[0]) if count else np.empty(0, kind)
    place[0] += count * kind.itemsize
    return found.reshape(shape)
