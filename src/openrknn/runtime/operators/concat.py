"""Concat: tensors behind each other along one axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.runtime.operators.interface import Array, Attributes, integer

__all__ = ["concat"]


def concat(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """All other axes have the same size."""
    return np.concatenate(inputs, axis=integer(attributes, "axis", 1))
