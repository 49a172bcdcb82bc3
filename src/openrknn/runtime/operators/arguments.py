"""ArgMax and ArgMin: where the largest or smallest value along an axis is, as int64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.runtime.operators.interface import Array, Attributes, integer

__all__ = ["arg_max", "arg_min"]


def arg_max(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """The first of several equal values, or the last with select_last_index."""
    return _pick(inputs[0], attributes, largest=True).reshape(shape)


def arg_min(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """The same for the smallest value."""
    return _pick(inputs[0], attributes, largest=False).reshape(shape)


def _pick(values: Array, attributes: Attributes, *, largest: bool) -> Array:
    axis = integer(attributes, "axis", 0)
    find = np.argmax if largest else np.argmin
    if not integer(attributes, "select_last_index", 0):
        return np.asarray(find(values, axis=axis), np.int64)
    return np.asarray(values.shape[axis] - 1 - find(np.flip(values, axis), axis=axis), np.int64)
