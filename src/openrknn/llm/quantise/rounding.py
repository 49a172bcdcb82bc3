"""Rounding that sees the data (GPTQ): the error of each column moves into the columns that are not rounded yet.

What is minimised is the error of the product over the calibration text, whose second moments are the Hessian. Columns
go from the strongest input to the weakest one.
"""

from __future__ import annotations

import numpy as np

from openrknn.llm.quantise.products import Int8s, rounded
from openrknn.llm.weights import Floats

_DAMPING = 0.01
"""Of the mean of the diagonal: inputs that the text hardly uses."""
_BLOCK = 128


def round_by_data(matrix: Floats, scales: Floats, most: int, hessian: Floats) -> Int8s:
    """Integers of the matrix for scales of outputs, or of [outputs, groups]."""
    inputs = matrix.shape[1]
    diagonal = np.diagonal(hessian)
    if not diagonal.any():
        return rounded(matrix, scales, most)
    order = np.argsort(-diagonal, kind="stable")
    spread = scales[:, None] if scales.ndim == 1 else np.repeat(scales, inputs // scales.shape[1], axis=1)
    steps = np.broadcast_to(spread, matrix.shape)[:, order]
    damped = hessian[np.ix_(order, order)].astype(np.float64)
    damped[np.arange(inputs), np.arange(inputs)] += _DAMPING * float(diagonal.mean())
    # The upper factor of the inverse: row i says how an error of column i is made good by those behind it.
    upper = np.linalg.cholesky(np.linalg.inv(damped)).T.astype(np.float32)
    left = matrix[:, order].astype(np.float32)
    made = np.empty(matrix.shape, np.int8)
    for first in range(0, inputs, _BLOCK):
        last = min(first + _BLOCK, inputs)
        errors = np.empty((len(matrix), last - first), np.float32)
        for column in range(first, last):
            step = steps[:, column]
            whole = np.clip(np.rint(left[:, column] / step), -most - 1, most)
            made[:, column] = whole
            error = (left[:, column] - whole * step) / upper[column, column]
            errors[:, column - first] = error
            left[:, column + 1 : last] -= np.outer(error, upper[column, column + 1 : last])
        left[:, last:] -= errors @ upper[first:last, last:]
    back = np.empty_like(made)
    back[:, order] = made
    return back
