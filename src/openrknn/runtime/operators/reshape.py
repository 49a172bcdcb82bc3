"""Reshape, Flatten, Squeeze, Unsqueeze: the same values in the shape that the compiler worked out."""

from __future__ import annotations

from collections.abc import Sequence

from openrknn.runtime.operators.interface import Array, Attributes

__all__ = ["reshape"]


def reshape(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """The order of the elements stays; the second input (the wanted shape) has been resolved in `shape`."""
    return inputs[0].reshape(shape)
