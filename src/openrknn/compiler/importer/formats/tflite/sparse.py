"""Constants that are stored sparse: the tree of TFLite's SparsityParameters, walked to the dense tensor.

Each level is a dimension, in traversal order; blocks add inner levels. A dense level counts all of its positions, a
sparse one (CSR) lists those that are there, between two segments for each position of the level above.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.container.flatbuffer import Table

Array = np.ndarray[Any, Any]
_SPARSE = 1
_WIDTHS = {1: np.int32, 2: np.uint16, 3: np.uint8}
"""Types of the union of index vectors."""


def dense(stored: Array, shape: tuple[int, ...], entry: Table, what: str) -> Array:
    """The tensor with its zeros."""
    order = [int(axis) for axis in entry.i32s(0)]
    blocked = [int(axis) for axis in entry.i32s(1)]
    levels = entry.tables(2)
    if len(blocked) > len(shape) or any(not 0 <= axis < len(shape) for axis in blocked):
        raise ModelError(f"{what}: its sparse blocks {blocked[:8]} do not fit the shape {list(shape)}; it is damaged")
    if sorted(order) != list(range(len(shape) + len(blocked))) or len(levels) != len(order):
        raise ModelError(f"{what}: its sparse levels {order} do not fit the shape {list(shape)}; the file is damaged")
    # Where each number is: the coordinate of every level, from the outermost to the innermost.
    places = np.zeros((1, 0), np.int64)
    rows = np.zeros(1, np.int64)
    sizes: list[int] = []
    for level in levels:
        if level.u8(0) == _SPARSE:
            segments, indices = (_numbers(level, slot, what) for slot in (2, 4))
            if len(segments) < rows.max(initial=-1) + 2 or (segments.size and segments[-1] > len(indices)):
                raise ModelError(f"{what}: a sparse level ends early; the file is damaged")
            counts = segments[rows + 1] - segments[rows]
            if (counts < 0).any() or counts.sum() > stored.size:
                raise ModelError(f"{what}: a sparse level has segments that do not ascend; the file is damaged")
            offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            rows = np.repeat(segments[rows], counts) + offsets
            chosen = indices[rows]
            sizes.append(0)
        else:
            size = level.i32(1)
            if not size > 0 or len(places) * size > max(math.prod(shape), 1):
                raise ModelError(f"{what}: a dense level has {size} positions; the file is damaged")
            counts = np.full(len(places), size)
            chosen = np.tile(np.arange(size), len(places))
            rows = np.repeat(rows * size, counts) + chosen
            sizes.append(size)
        places = np.concatenate([np.repeat(places, counts, axis=0), chosen[:, None].astype(np.int64)], axis=1)
    if len(places) != stored.size:
        raise ModelError(f"{what}: {stored.size} numbers are stored for {len(places)} places; the file is damaged")
    return _placed(stored, shape, order, blocked, places, sizes, what)


def _placed(
    stored: Array, shape: tuple[int, ...], order: list[int], blocked: list[int], places: Array, sizes: list[int],
    what: str,
) -> Array:  # fmt: skip
    position = [np.zeros(len(places), np.int64) for _ in shape]
    for level, axis in enumerate(order):
        if axis < len(shape):
            inner = next((order.index(len(shape) + at) for at, own in enumerate(blocked) if own == axis), None)
            position[axis] += places[:, level] * (1 if inner is None else sizes[inner])
        else:
            position[blocked[axis - len(shape)]] += places[:, level]
    if any((at < 0).any() or (at >= size).any() for at, size in zip(position, shape, strict=True)):
        raise ModelError(f"{what}: a sparse index is outside of the shape {list(shape)}; the file is damaged")
    made = np.zeros(shape, stored.dtype)
    made[tuple(position)] = stored
    return made


def _numbers(level: Table, slot: int, what: str) -> Array:
    """A union of vectors: its type, then the table."""
    kind, table = level.u8(slot), level.table(slot + 1)
    if kind not in _WIDTHS or table is None:
        raise ModelError(f"{what}: a sparse level has no indices; the file is damaged")
    width = np.dtype(_WIDTHS[kind])
    raw = table.i32s(0) if kind == 1 else table.structs(0, width.itemsize)
    return np.asarray(raw if kind == 1 else np.frombuffer(raw, width), np.int64)
