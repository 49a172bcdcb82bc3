"""A matrix product on the matrices themselves: what the software NPU computes, without its commands and its layouts.

    step = DirectProduct(4, 64, 32, a_bits=8, b_bits=8)
    step.a, step.b, step.c = Rows(...), Tiles(...), Rows(...)
    step.run()

B is read in place by each run: nothing is packed, nothing is kept. Sums of integers are exact, and sums of
float16 follow the rule of the software NPU's convolutions (npu/blocks/core.py); a test compares the bytes.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.compute import native
from openrknn.nativelib import structures
from openrknn.numerics import address

Bytes = npt.NDArray[np.uint8]
_FORMATS = {4: 17, 8: 0, 16: 2}
"""Bits of a number -> its format in native/openrknn.h."""
MOST_SEGMENTS = 256
"""OPENRKNN_PRODUCT_PARTS."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A or C in memory: element (row, k) is at row * `row` + (k div width) * `group`, and k mod width numbers on."""

    data: Bytes
    row: int
    group: int
    width: int

    @classmethod
    def plain(cls, data: Bytes, columns: int, bits: int) -> Rows:
        """[rows, columns]."""
        return cls(data, columns * bits // 8, 0, columns)

    @classmethod
    def native(cls, data: Bytes, rows: int, width: int, bits: int) -> Rows:
        """[columns / width, rows, width]."""
        return cls(data, width * bits // 8, rows * width * bits // 8, width)


@dataclass(frozen=True, slots=True)
class Tiles:
    """B in memory: native tiles, or with `column` bytes from column to column as [N, K].

    Where K is a part of the rows that a segment has, `data` begins with that part, and `span` is all of them.
    """

    data: Bytes
    columns: int = 0
    rows: int = 0
    segment: int = 0
    column: int = 0
    span: int = 0


def is_available() -> bool:
    """Whether the native library is there."""
    return native.choose() is not None


class DirectProduct:
    """C [M, N] = A [M, K] * B [K, N]; A and B have 4, 8 or 16 bits (float16), C is int32 or float32.

    An integer A takes an integer B; float16 takes any, with a zero point for each column if B is integers.
    """

    def __init__(self, m: int, k: int, n: int, *, a_bits: int, b_bits: int) -> None:
        kernels, library = native.choose(), native.load()
        if kernels is None or library is None:
            raise RuntimeError("the native library is missing; ask is_available")
        self._step = structures.Product()
        self._step.kernels, self._step.m, self._step.k, self._step.n = int(kernels), m, k, n
        self._step.a_format, self._step.b_format = _FORMATS[a_bits], _FORMATS[b_bits]
        self._function: Any = library.openrknn_multiply
        self._argument = ctypes.byref(self._step)
        self._kept: dict[str, object] = {}

    def set_a(self, rows: Rows) -> None:
        """Where A is."""
        self._kept["a"] = rows.data
        step = self._step
        step.a, step.a_row, step.a_group, step.a_width = address(rows.data), rows.row, rows.group, rows.width

    def set_b(self, tiles: Tiles) -> None:
        """Where B is."""
        self._kept["b"] = tiles.data
        step = self._step
        step.b, step.b_column, step.segment = address(tiles.data), tiles.column, tiles.segment
        step.tile_columns, step.tile_rows, step.b_span = tiles.columns, tiles.rows, tiles.span

    def set_c(self, rows: Rows) -> None:
        """Where C goes."""
        self._kept["c"] = rows.data
        step = self._step
        step.c, step.c_row, step.c_group, step.c_width = address(rows.data), rows.row, rows.group, rows.width

    def set_zeros(self, zeros: npt.NDArray[np.int32] | None) -> None:
        """One for each column of B."""
        self._kept["zeros"] = zeros
        self._step.zeros = None if zeros is None else address(zeros)

    def run(self) -> None:
        """Multiply."""
        if self._function(self._argument):
            raise MemoryError("no memory for A in the order of the kernels")
