"""Invented outputs: mostly background, a few strong cells; as floats and as int8."""

from typing import Any

import numpy as np

from openrknn.vision.heads import Frame, Head

Array = np.ndarray[Any, Any]
FRAME = Frame(width=96, height=64)
STRIDES = (8, 16, 32)


def grids(frame: Frame = FRAME) -> list[tuple[int, int]]:
    """Rows and columns of each stride."""
    return [(frame.height // stride, frame.width // stride) for stride in STRIDES]


def cells(frame: Frame = FRAME) -> int:
    return sum(rows * columns for rows, columns in grids(frame))


def probabilities(chance: np.random.Generator, *shape: int, strong: float = 0.1) -> Array:
    """Small numbers, and some from 0.3 to 1."""
    values = chance.uniform(0, 0.2, shape)
    return np.where(chance.random(shape) < strong, chance.uniform(0.3, 1, shape), values).astype(np.float32)


def plain(values: Array, name: str = "") -> Head:
    return Head(name, values.astype(np.float32))


def quantized(values: Array, name: str = "") -> Head:
    """int8 with the scale and zero point that a converter would choose."""
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 1e-3)
    scale = (high - low) / 255
    zero_point = round(-128 - low / scale)
    stored = np.clip(np.rint(values / scale + zero_point), -128, 127).astype(np.int8)
    return Head(name, stored, float(np.float32(scale)), zero_point)


def floats(head: Head) -> Array:
    """What the head stands for."""
    return head.real(head.values)


def logits(values: Array) -> Array:
    clipped = np.clip(values, 1e-4, 1 - 1e-4)
    return np.asarray(np.log(clipped / (1 - clipped)), np.float32)
