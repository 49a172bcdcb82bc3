"""Rows by token or by position, from the tables of a decoder's file."""

from __future__ import annotations

import numpy as np

from openrknn.container.sequence import DecoderFile, TableEntry
from openrknn.runtime.io.tensors import Array

__all__ = ["Table"]


class Table:
    """Looks up rows; nothing is unpacked before it is asked for."""

    def __init__(self, entry: TableEntry, file: DecoderFile) -> None:
        self.input, self.by, self.shape = entry.input, entry.by, entry.shape
        self._rows = np.frombuffer(file.files[entry.file], np.dtype(entry.type)).reshape(entry.rows, entry.columns)
        self._scale = np.array(entry.scale, np.float32) if entry.scale else None
        self._zero = np.float32(entry.zero)

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, number: int) -> Array:
        """As floats, in the shape of the input."""
        found: Array = self._rows[number].astype(np.float32)
        if self._scale is not None:
            found = (found - self._zero) * self._scale
        return found.reshape(self.shape)
