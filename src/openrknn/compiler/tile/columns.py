"""How the columns of a convolution are cut: rows that are longer than a register counts, or than the buffer holds.

A stripe reads a window of columns with what its kernels reach beyond it, and writes a window of the output. So does the
vendor's converter: rows are read with LINE_STRIDE for each line, and the DPU skips the rest of a row (notch).
"""

from __future__ import annotations

from math import isqrt
from typing import NamedTuple

from openrknn.compiler.formats import ceil_div

LONGEST = 2047
"""Rows and columns that a convolution reads or writes at a time: 11 bits of CNA.DATA_SIZE0 and DATA_SIZE2."""
_NARROWEST = 16
"""Columns of a row that is worth a burst of the DMA."""


class Axis(NamedTuple):
    """A convolution along its rows."""

    size: int
    """Columns of the input that are used."""
    out: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    pad: int = 0
    spread: int = 1

    @property
    def reach(self) -> int:
        return (self.kernel - 1) * self.dilation + 1


class Columns(NamedTuple):
    """Columns of the input for some columns of the output."""

    column: int
    columns: int
    out_column: int
    out_columns: int
    pad_left: int


def column_windows(axis: Axis, count: int) -> list[Columns] | None:
    """`count` stripes that are as equal as can be; None if one of them would see nothing but padding."""
    found = []
    size = ceil_div(axis.out, count)
    for first in range(0, axis.out, size):
        made = min(size, axis.out - first)
        window = _window(axis, first, made)
        if window is None:
            return None
        found.append(window)
    return found


def _window(axis: Axis, first: int, made: int) -> Columns | None:
    start = first * axis.stride - axis.pad
    stop = start + (made - 1) * axis.stride + axis.reach
    column = max(0, ceil_div(start, axis.spread))
    last = min(axis.size, ceil_div(stop, axis.spread))
    if last <= column:
        return None
    return Columns(column, last - column, first, made, column * axis.spread - start)


def fold(pixels: int, most: int = LONGEST) -> tuple[int, int] | None:
    """(rows, columns) of so many pixels, both within the limit: rows of a sensible length if there are such."""
    divisors = [size for size in range(1, isqrt(pixels) + 1) if pixels % size == 0]
    found = [(pixels // size, size) for size in (*divisors, *(pixels // size for size in divisors))]
    fitting = [(rows, columns) for rows, columns in found if max(rows, columns) <= most]
    return min(fitting, key=lambda pair: (pair[1] < _NARROWEST, pair[1] % 4 != 0, pair[1]), default=None)
