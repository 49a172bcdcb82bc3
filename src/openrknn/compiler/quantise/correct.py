"""Bias correction: rounding the weights moves the mean of each output channel; the bias takes it back.

    b[o] -= sum over c of mean[c] * sum over taps of (quantized w - w)
"""

from __future__ import annotations

import numpy as np

from openrknn.compiler.ir import Array

__all__ = ["bias_error"]


def bias_error(rounded: Array, weights: Array, means: Array, group: int) -> Array:
    """How far rounding moves the mean of each output; `means` is that of each input channel."""
    change = (rounded - weights).sum((2, 3))
    if group == 1:
        result: Array = change @ means
        return result
    outputs, inputs = len(weights) // group, weights.shape[1]
    per_group = change.reshape(group, outputs, inputs) @ means.reshape(group, inputs, 1)
    return np.asarray(per_group).reshape(-1)
