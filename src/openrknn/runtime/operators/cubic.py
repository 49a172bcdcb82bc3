"""Cubic interpolation by Keys' kernel, whose slope at 1 is `a`."""

from __future__ import annotations

import numpy as np

from openrknn.runtime.operators.interface import Array

CUBIC_SLOPE = -0.75
"""ONNX's default, and PyTorch's."""


def keys_weights(rest: Array, a: float) -> list[Array]:
    """The weights of the four pixels at -1, 0, 1 and 2 for a place `rest` behind pixel 0."""
    return [_far(rest + 1, a), _near(rest, a), _near(1 - rest, a), _far(2 - rest, a)]


def _near(distance: Array, a: float) -> Array:
    return np.asarray(((a + 2) * distance - (a + 3)) * distance * distance + 1)


def _far(distance: Array, a: float) -> Array:
    return np.asarray(((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a)
