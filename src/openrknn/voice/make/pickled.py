"""Weights in PyTorch's files, without PyTorch: a zip with a pickle, of which only tensors and dictionaries are read."""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.errors import VoiceSetError

Array = npt.NDArray[Any]
_LARGEST = 1 << 30
_TYPES = {
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "DoubleStorage": "<f8",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
}


def read_state(path: Path) -> dict[str, Array]:
    """The tensors of a state by name."""
    return {key: value for key, value in read_tree(path).items() if isinstance(value, np.ndarray)}


def read_tree(path: Path, largest: int = _LARGEST) -> dict[str, Any]:
    """What was saved: tensors, numbers and dictionaries by name. A pickle can call anything; this one can call
    nothing."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > largest:
                raise VoiceSetError(f"{path}: weights of more than {largest} bytes; this is not the file it should be")
            name = next((entry for entry in archive.namelist() if entry.endswith("data.pkl")), None)
            if name is None:
                raise VoiceSetError(f"{path}: no weights of PyTorch (an old file? save it again with PyTorch)")
            folder = name.removesuffix("data.pkl")

            def storage(key: str, kind: str, count: int) -> Array:
                return np.frombuffer(archive.read(f"{folder}data/{key}"), kind)[:count]

            found = StateUnpickler(io.BytesIO(archive.read(name)), storage).load()
    except (zipfile.BadZipFile, pickle.UnpicklingError, KeyError, ValueError, IndexError, TypeError, EOFError,
            AttributeError, NotImplementedError, RuntimeError, OSError) as error:  # fmt: skip
        raise VoiceSetError(f"{path}: these weights cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise VoiceSetError(f"{path}: holds no weights by name")
    return {str(key): value for key, value in found.items()}


class _Kind:
    """The name of a storage's type."""

    def __init__(self, name: str) -> None:
        self.name = name


class StateUnpickler(pickle.Unpickler):
    """Reads dictionaries of tensors. `storage` gives the numbers of (key, type, count)."""

    def __init__(self, stream: io.BytesIO, storage: Callable[[str, str, int], Array]) -> None:
        super().__init__(stream)
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        """Nothing but what a state needs."""
        allowed: dict[tuple[str, str], Callable[..., Any] | type] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuilt,
        }
        if (module, name) in allowed:
            return allowed[module, name]
        if module == "torch" and name in _TYPES:
            return _Kind(name)
        raise pickle.UnpicklingError(f"asks for {module}.{name}, which weights do not need")

    def persistent_load(self, pid: Any) -> Array:
        """A storage: ("storage", kind, key, place, count)."""
        _, kind, key, _, count = pid[:5]
        if not isinstance(kind, _Kind) or not isinstance(key, str) or not key.isalnum():
            raise pickle.UnpicklingError(f"a storage {str(key)[:40]!r} that is not understood")
        return self._storage(key, _TYPES[kind.name], int(count))


def _rebuilt(storage: Array, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: Any) -> Array:
    last = offset + sum((count - 1) * step for count, step in zip(size, stride, strict=True))
    is_inside = min((offset, *size, *stride), default=0) >= 0 and last < storage.size
    # Strides of 0 repeat numbers: a small file could ask for any amount of memory.
    if not is_inside or math.prod(size) > storage.size:
        raise ValueError(f"a tensor {size} with strides {stride} that its storage does not hold")
    steps = [step * storage.itemsize for step in stride]
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(storage[offset:], size, steps, writeable=False))
