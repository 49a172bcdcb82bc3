"""Softmax, as opset 13 defines it: along one axis (older opsets flattened the axes behind it)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.runtime.operators.interface import Array, Attributes, integer

__all__ = ["softmax"]


def softmax(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """exp(x - max) / sum(exp(x - max)) along `axis`; the largest value is taken off so that nothing overflows."""
    axis = integer(attributes, "axis", -1)
    grown = np.exp(inputs[0] - inputs[0].max(axis=axis, keepdims=True))
    result: Array = grown / grown.sum(axis=axis, keepdims=True)
    return result
