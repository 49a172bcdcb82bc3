"""MatMul of two activations: rows times columns, with the leading dimensions broadcast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.runtime.operators.interface import Array, Attributes

__all__ = ["matmul"]


def matmul(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """As NumPy does it."""
    return np.asarray(np.matmul(inputs[0], inputs[1]))
