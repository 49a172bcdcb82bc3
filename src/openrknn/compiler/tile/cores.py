"""How work is shared by cores: rows of the output, or groups of output channels.

Cores that share rows all read the weights, cores that share channels all read the input: the smaller one is read
several times. Each share is tiled like a convolution of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from openrknn.compiler.formats import Format
from openrknn.compiler.tile.convolution import Band, Shape, tile


class Share(NamedTuple):
    """What one core makes: these output rows of these output channels."""

    row: int
    rows: int
    kernel: int
    kernels: int


def shares(shape: Shape, format: Format, kernels: int, weight_bytes: int, cores: int) -> list[Share] | None:  # noqa: A002
    """One share per core, or None if there is not enough for all of them."""
    by_rows = [Share(row, rows, 0, kernels) for row, rows in parts(shape.out_height, 1, cores)]
    by_kernels = [Share(0, shape.out_height, first, count) for first, count in parts(kernels, format.group, cores)]
    # Transposed ones begin between rows that are there; depthwise ones have their channels in chunks.
    can_rows = shape.spread == 1 and len(by_rows) == cores and all(_has_input(shape, share) for share in by_rows)
    can_kernels = not shape.depthwise and len(by_kernels) == cores
    if can_rows and can_kernels:
        data_bytes = shape.height * shape.width * shape.channels * format.element_bytes
        return by_rows if weight_bytes <= data_bytes else by_kernels
    if can_rows:
        return by_rows
    return by_kernels if can_kernels else None


def _has_input(shape: Shape, share: Share) -> bool:
    """Whether some row of the input, not only pad values, is under the windows of a share."""
    start = share.row * shape.stride - shape.pad_top
    return start < shape.height and start + (share.rows - 1) * shape.stride + shape.reach > 0


def parts(size: int, unit: int, cores: int) -> Iterator[tuple[int, int]]:
    """(first, count) in whole units, the first ones larger by at most one unit; nothing if there are too few."""
    units = -(-size // unit)
    if units < cores:
        return
    first = 0
    for core in range(cores):
        count = unit * (units // cores + (core < units % cores))
        yield first, min(count, size - first)
        first += count


def shared_parts(size: int, cores: int) -> list[tuple[int, int]]:
    """(first, count) for each core, the first ones larger; cores for which nothing is left have none."""
    counts = [size // cores + (core < size % cores) for core in range(cores)]
    return [(sum(counts[:core]), count) for core, count in enumerate(counts)]


def share_bands(shape: Shape, format: Format, name: str, share: Share) -> list[Band]:  # noqa: A002
    """The tasks of a share, with rows counted in the whole convolution; `shape` has the kernels of the share."""
    if share.rows == shape.out_height:
        return tile(shape, format, name)
    start = share.row * shape.stride - shape.pad_top
    pad, start = max(0, -start), max(0, start)
    needed = (share.rows - 1) * shape.stride + shape.reach - pad
    part = replace(shape, height=min(shape.height - start, needed), out_height=share.rows, pad_top=pad)
    return [replace(band, row=band.row + start, out_row=band.out_row + share.row) for band in tile(part, format, name)]
