"""Cells, strides and the two formulas that most detectors share.

A detector looks at its frame through grids: the output for stride s has frame / s cells, and the cell in column x and
row y is about the pixels around ((x + 0.5) s, (y + 0.5) s).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.vision.heads import Array, Floats, Frame

STRIDES = (8, 16, 32)


def sigmoid(values: Array) -> Floats:
    """1 / (1 + e^-x), written so that nothing overflows: (1 + tanh(x / 2)) / 2."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * values)), np.float32)


def softmax(values: Array, axis: int) -> Floats:
    """e^x / sum of e^x; the largest is taken off first, which changes nothing but overflow."""
    powers = np.exp(values - values.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True), np.float32)


def distances(columns: Floats, sides: int = 4) -> Floats:
    """Distribution focal loss: [sides * bins, n] -> [sides, n].

    Each side of a box is given as scores of `bins` distances 0, 1, 2 ... cells; the distance is their mean,

        d = sum over i of i * softmax(score)_i

    With one bin the output is the distance itself.
    """
    bins = len(columns) // sides
    if bins == 1:
        return columns
    shares = softmax(columns.reshape(sides, bins, -1), axis=1)
    return np.asarray(np.einsum("b,sbn->sn", np.arange(bins, dtype=np.float32), shares), np.float32)


def stride_of(shape: Sequence[int], frame: Frame) -> tuple[float, float]:
    """Pixels per cell of an output [..., rows, columns]: across, down."""
    return frame.width / shape[-1], frame.height / shape[-2]


def is_grid(shape: Sequence[int], frame: Frame) -> bool:
    """Whether [1, channels, rows, columns] has the cells of one stride."""
    if len(shape) != 4 or shape[0] != 1 or not shape[2] or not shape[3]:
        return False
    across, down = stride_of(shape, frame)
    return across == down and across == int(across) and across >= 4 and not int(across) & (int(across) - 1)


def count_cells(frame: Frame, strides: Sequence[int] = STRIDES) -> int:
    """Cells of all strides together: 8400 for 640x640."""
    return sum((frame.width // stride) * (frame.height // stride) for stride in strides)


def cell_corners(cells: Array, columns: int) -> Floats:
    """[n] cell numbers, row by row -> [2, n]: column and row."""
    return np.stack([cells % columns, cells // columns]).astype(np.float32)


def boxes_from_centres(centres: Array, sizes: Array) -> Floats:
    """[2, n] centres and [2, n] sizes -> [n, 4] left, top, right, bottom."""
    half = sizes / 2
    return np.concatenate([centres - half, centres + half]).T.astype(np.float32)
