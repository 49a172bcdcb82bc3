"""ReduceMax, ReduceMin, ReduceMean, ReduceSum over some axes, or over all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.runtime.operators.interface import Array, Attributes, axes_of

__all__ = ["reduce_max", "reduce_mean", "reduce_min", "reduce_sum"]


def reduce_max(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """The largest value; whether reduced axes stay with size 1 is in `shape`."""
    return np.asarray(inputs[0].max(axis=axes_of(inputs, attributes))).reshape(shape)


def reduce_min(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """The smallest value."""
    return np.asarray(inputs[0].min(axis=axes_of(inputs, attributes))).reshape(shape)


def reduce_mean(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """The mean, summed in double precision."""
    return np.asarray(inputs[0].mean(axis=axes_of(inputs, attributes), dtype=np.float64)).reshape(shape)


def reduce_sum(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """The sum, in double precision."""
    return np.asarray(inputs[0].sum(axis=axes_of(inputs, attributes), dtype=np.float64)).reshape(shape)
