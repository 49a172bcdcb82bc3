"""Rows by token or by position from a decoder's tables, and one row of a tensor in device memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.container.sequence import DecoderFile, TableEntry
from openrknn.errors import UnsupportedError
from openrknn.runtime.io.tensors import Array, StoredTensor
from openrknn.runtime.io.values import decode, encode

_CHANNELS, _RANK = 1, 4
_OF_PICTURES = (0, 3, 1, 2)
"""Dimensions of [N, C, H, W] in the memory of a picture."""


def fill(stored: StoredTensor, values: Array) -> None:
    """The whole tensor, from numbers in its original shape."""
    stored.clear_lanes()
    stored.write(encode(values, stored.tensor, stored.dtype).reshape(stored.tensor.shape))


def _place(stored: StoredTensor, axis: int) -> Callable[[int], Any]:
    """Which part of the native memory row `n` of dimension `axis` is."""
    rank = len(stored.tensor.shape)
    if (stored.is_image or stored.is_feature) and rank != _RANK:
        raise UnsupportedError(f"{stored.tensor.name!r} has a memory layout whose rows cannot be written one by one")
    everything: list[object] = [slice(None)] * stored.native.ndim
    if stored.is_feature and axis == _CHANNELS:
        atom = stored.native.shape[4]
        return lambda row: (slice(None), row // atom, slice(None), slice(None), row % atom)

    native = _OF_PICTURES[axis] if stored.is_image else axis

    def plain(row: int) -> Any:
        found = list(everything)
        found[native] = row
        return tuple(found)

    return plain


class RowWriter:
    """Copies rows of one tensor to rows of another."""

    def __init__(self, target: StoredTensor, source: StoredTensor, axis: int) -> None:
        self._source, self._target, self._axis = source, target, axis
        self._where, self._from = _place(target, axis), _place(source, axis)
        view = source.native[self._from(0)]
        same = (target.dtype, target.tensor.quantization) == (source.dtype, source.tensor.quantization)
        self._is_direct = same and view.shape == target.native[self._where(0)].shape
        self.row_bytes = view.nbytes

    @property
    def is_direct(self) -> bool:
        """Whether bytes are copied as they are."""
        return self._is_direct

    def write(self, row: int, count: int = 1) -> None:
        """The first rows of the source to the target, from this row on."""
        if self._is_direct:
            for number in range(count):
                self._target.native[self._where(row + number)] = self._source.native[self._from(number)]
            return
        numbers = decode(self._source.read(), self._source.tensor)
        for number in range(count):
            self._write_one(row + number, np.take(numbers, [number], self._axis))

    def _write_one(self, row: int, numbers: Array) -> None:
        stored, tensor = self._target, self._target.tensor
        shape = list(tensor.shape)
        shape[self._axis] = 1
        values = encode(numbers, tensor, stored.dtype).reshape(shape)
        if stored.is_image:
            stored.native[self._where(row)] = np.take(values.transpose(0, 2, 3, 1), 0, _OF_PICTURES[self._axis])
        elif not stored.is_feature:
            stored.native[self._where(row)] = np.take(values, 0, self._axis)
        elif self._axis == _CHANNELS:
            stored.native[self._where(row)] = values[:, 0]
        else:
            self._write_feature(row, values)

    def _write_feature(self, row: int, values: Array) -> None:
        """[N, C, H, W] with one row, into [N, C1, H, W, C2]."""
        lanes = self._target.native[self._where(row)]
        batches, surfaces, *_, atom = lanes.shape
        flat = np.take(values, 0, self._axis)
        spread = np.zeros((batches, surfaces * atom, flat.shape[2]), flat.dtype)
        spread[:, : flat.shape[1]] = flat
        lanes[...] = spread.reshape(batches, surfaces, atom, -1).transpose(0, 1, 3, 2)


class FilledRow:
    """A mask over rows: which of them are filled."""

    def __init__(self, stored: StoredTensor, far: float) -> None:
        self._stored = stored
        shape = stored.tensor.shape
        self._where = _place(stored, int(np.argmax(shape)))  # [1, 1, 1, rows], or [1, rows, 1, 1]
        self._numbers = np.full(stored.tensor.shape, far, np.float32)
        self._zero = encode(np.zeros(1, np.float32), stored.tensor, stored.dtype).reshape(-1)[0]

    def set(self, length: int) -> None:
        """The first rows are filled."""
        numbers = self._numbers.copy()
        numbers.reshape(-1)[:length] = 0
        fill(self._stored, numbers)

    def add(self, row: int) -> None:
        """One more."""
        self._stored.native[self._where(row)] = self._zero


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
