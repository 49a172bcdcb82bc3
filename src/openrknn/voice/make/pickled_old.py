"""Weights in PyTorch's files from before version 1.6: pickles in a row, then the numbers of each storage."""

from __future__ import annotations

import io
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.pickled import Array, StateUnpickler

_MAGIC = 0x1950A86A20F9469CFC6C
_LARGEST = 1 << 28
_MOST = 10_000


def read_old_state(path: Path, inner: str) -> dict[str, Array]:
    """The tensors of the dictionary called `inner`, by name. A pickle can call anything; this one can call nothing."""
    try:
        if path.stat().st_size > _LARGEST:
            raise VoiceSetError(f"{path}: more than {_LARGEST} bytes; this is not the file it should be")
        data = path.read_bytes()
        stream = io.BytesIO(data)
        if StateUnpickler(stream, _none).load() != _MAGIC:
            raise VoiceSetError(f"{path}: no weights of PyTorch")
        for _ in range(2):  # version, sizes of numbers
            StateUnpickler(stream, _none).load()
        begin = stream.tell()
        # Twice: how long the numbers of a storage are is said by the objects, which come before the storages.
        kinds: dict[str, tuple[str, int]] = {}

        def noted(key: str, kind: str, count: int) -> Array:
            kinds[key] = (kind, count)
            if not 0 <= count * np.dtype(kind).itemsize <= len(data):
                raise ValueError(f"a storage of {count} numbers in a file of {len(data)} bytes")
            return np.zeros(count, kind)

        StateUnpickler(stream, noted).load()
        storages = _storages(data, stream, kinds)
        stream.seek(begin)
        found = StateUnpickler(stream, lambda key, _kind, _count: storages[key]).load()
    except (pickle.UnpicklingError, KeyError, ValueError, IndexError, TypeError, EOFError, AttributeError,
            struct.error, RuntimeError, MemoryError, OSError) as error:  # fmt: skip
        raise VoiceSetError(f"{path}: these weights cannot be read: {error}") from error
    state = found.get(inner) if isinstance(found, dict) else None
    if not isinstance(state, dict):
        raise VoiceSetError(f"{path}: holds no {inner!r} with weights by name")
    return {str(key): value for key, value in state.items() if isinstance(value, np.ndarray)}


def _none(key: str, _kind: str, _count: int) -> Array:
    raise pickle.UnpicklingError(f"a storage {key[:40]!r} where none belongs")


def _storages(data: bytes, stream: io.BytesIO, kinds: dict[str, tuple[str, int]]) -> dict[str, Array]:
    """The list of keys, then for each of them how many numbers there are, and the numbers."""
    keys: Any = StateUnpickler(stream, _none).load()
    if not isinstance(keys, list) or len(keys) > _MOST:
        raise ValueError("no list of storages")
    found: dict[str, Array] = {}
    at = stream.tell()
    for key in keys:
        kind, count = kinds[key]
        (there,) = struct.unpack_from("<q", data, at)
        if there != count:
            raise ValueError(f"storage {str(key)[:40]!r} has {there} numbers where {count} belong")
        found[key] = np.frombuffer(data, kind, count, at + 8)
        at += 8 + found[key].nbytes
    return found
