"""Transpose: axes change places."""

from __future__ import annotations

from collections.abc import Sequence

from openrknn.runtime.operators.interface import Array, Attributes, integers

__all__ = ["transpose"]


def transpose(inputs: Sequence[Array], attributes: Attributes, shape: tuple[int, ...]) -> Array:
    """Axis k of the output is axis perm[k] of the input; without perm the axes are reversed."""
    rank = inputs[0].ndim
    return inputs[0].transpose(integers(attributes, "perm", range(rank - 1, -1, -1)))
