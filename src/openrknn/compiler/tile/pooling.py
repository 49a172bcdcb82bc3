"""How a pooling is cut: columns in stripes, because the PPU keeps one line of results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from openrknn.compiler.formats import ceil_div

_LINE = 128


@dataclass(frozen=True, slots=True)
class Stripe:
    """One task: columns of the input and the output."""

    column: int
    columns: int
    pad_left: int
    pad_right: int
    out_column: int
    out_columns: int


class Rows(NamedTuple):
    """Rows of the input for some rows of the output."""

    row: int
    rows: int
    pad_top: int
    pad_bottom: int
    out_row: int
    out_rows: int


def pool_rows(height: int, kernel: int, stride: int, top: int, out_row: int, out_rows: int) -> Rows | None:
    """What these rows of the output need; None if they see nothing but padding."""
    start = out_row * stride - top
    pad, start = max(0, -start), max(0, start)
    needed = (out_rows - 1) * stride + kernel - pad
    rows = min(height - start, needed)
    return Rows(start, rows, pad, needed - rows, out_row, out_rows) if rows > 0 else None


def stripes(width: int, out_width: int, kernel: tuple[int, int], strides: tuple[int, int], left: int) -> list[Stripe]:
    """As few stripes as fit: 128 results, halved for every doubling of the lines that a result needs."""
    overlap = 1
    while overlap < ceil_div(kernel[0], strides[0]):
        overlap *= 2
    limit = max(1, _LINE // overlap)
    size = ceil_div(out_width, ceil_div(out_width, limit))
    found = []
    for first in range(0, out_width, size):
        made = min(size, out_width - first)
        start = first * strides[1] - left
        pad, start = max(0, -start), max(0, start)
        needed = (made - 1) * strides[1] + kernel[1] - pad
        columns = min(width - start, needed)
        found.append(Stripe(start, columns, pad, max(0, needed - columns), first, made))
    return found
