"""whisper.cpp's files: sizes, mel filters, the tokens' text, then tensors by OpenAI's names."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np

from openrknn.errors import RknnError
from openrknn.llm.files.types import GGML_FORMATS, to_floats
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.whisper.checkpoint import Array, Checkpoint

MAGIC = b"lmgg"
_FIELDS = 11
_MOST_NAME = 200
_MOST_TOKENS = 1 << 20
_LARGEST = 1 << 33
_ANOTHER = 1 << 12


class _Cursor:
    """Reads a file from the beginning to its end, and says where it breaks off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.stat().st_size > _LARGEST:
            raise VoiceSetError(f"{path}: larger than {_LARGEST} bytes; not a file of whisper.cpp")
        self._data = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
        self.at = 0

    @property
    def is_over(self) -> bool:
        return self.at >= len(self._data)

    def take(self, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        if not 0 <= size <= len(self._data) - self.at:
            raise VoiceSetError(f"{self.path}: ends at byte {len(self._data)}, inside what begins at {self.at}")
        self.at += size
        return self._data[self.at - size : self.at]

    def integers(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}i", self.take(4 * count).tobytes())


def read(path: Path) -> Checkpoint:
    """A file such as `ggml-tiny.bin`; quantised tensors (q5_1, q8_0, ...) become floats."""
    try:
        file = _Cursor(path)
    except OSError as error:
        raise VoiceSetError(f"{path}: cannot be read: {error.strerror or error}") from error
    if file.take(4).tobytes() != MAGIC:
        raise VoiceSetError(f"{path}: not a file of whisper.cpp (another magic number)")
    _, _, _, heads, _, _, _, text_heads, *_ = file.integers(_FIELDS)
    bands, bins = file.integers(2)
    if not 0 < bands <= _ANOTHER or not 0 < bins <= _ANOTHER:
        raise VoiceSetError(f"{path}: mel filters of {bands} x {bins}; not a file of whisper.cpp")
    file.take(4 * bands * bins)
    (count,) = file.integers(1)
    if not 0 <= count <= _MOST_TOKENS:
        raise VoiceSetError(f"{path}: {count} tokens; not a file of whisper.cpp")
    pieces = tuple(file.take(file.integers(1)[0]).tobytes() for _ in range(count))
    arrays: dict[str, Array] = {}
    while not file.is_over:
        name, array = _tensor(file)
        arrays[name] = array
    return Checkpoint(arrays, path.name, pieces, heads=(heads, text_heads)).checked()


def _tensor(file: _Cursor) -> tuple[str, Array]:
    rank, length, kind = file.integers(3)
    if not 1 <= rank <= 4 or not 1 <= length <= _MOST_NAME or kind not in GGML_FORMATS:
        raise VoiceSetError(f"{file.path}: a tensor of rank {rank} and type {kind} before byte {file.at}")
    shape = tuple(reversed(file.integers(rank)))
    name = file.take(length).tobytes().decode("utf-8", errors="replace")
    form = GGML_FORMATS[kind]
    if min(shape) < 1 or math.prod(shape) > _LARGEST or shape[-1] % form.block:
        raise VoiceSetError(f"{file.path}: {name:.60} has the shape {shape}, which {form.name} cannot have")
    rows = math.prod(shape[:-1])
    data = file.take(rows * form.row_bytes(shape[-1])).reshape(rows, -1)
    try:
        floats = to_floats(data, form, shape[-1]).reshape(shape)
    except RknnError as error:
        raise VoiceSetError(f"{file.path}: {name:.60}: {error}") from error
    # Biases of the convolutions are stored as columns.
    return name, floats.reshape(-1) if name.endswith(".bias") else floats
