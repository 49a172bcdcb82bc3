"""MatMul of two activations: rows times columns, with the leading dimensions broadcast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.runtime.operators.interface import Array, Attributes

__all__ = ["matmul"]


def matmul(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """In single precision, product after product, as the vendor's runtime 1.5.2 does it: near a tie the order tells."""
    left, right = (np.asarray(values, np.float32) for values in inputs)
    if left.ndim < 2 or right.ndim < 2:
        return np.asarray(np.matmul(left, right))
    columns = np.ascontiguousarray(np.moveaxis(left, -1, 0))[..., None]
    leading = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    total = np.zeros((*leading, left.shape[-2], right.shape[-1]), np.float32)
    product = np.empty_like(total)
    for step in range(left.shape[-1]):
        total += np.multiply(columns[step], right[..., step : step + 1, :], out=product)
    return total
