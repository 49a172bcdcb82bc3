"""Products as the NPU computes them: integers, their scales, and the arithmetic in between, exactly.

    W8A8    int8 x int8 -> int32, times a scale per column and the scale of the activations, written as fp16
    W4A16   fp16 x int4 -> fp32 for each group of inputs, times the group's scale, added, written as fp16

The NPU has no scale per group: a group is a product of its own, and the sums are added behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from openrknn.compiler.quantise.weights import MULTIPLIER_UNIT, relative_scales
from openrknn.llm.weights import Floats

Int8s = npt.NDArray[np.int8]

INT8_MOST = 127
INT4_MOST = 7
_EXACT_INPUTS = 1024
"""Inputs whose products of int8 have a sum below 2**24 in any case: float32 adds them without rounding."""
_LARGEST_GROUP = 128
_GROUP_STEP = 32
"""Inputs of a product with int4 are a multiple of this."""
_CLIPS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""Shares of the largest weight that a scale for int4 is tried with."""


class Product(Protocol):
    """A matrix that is ready to be multiplied with."""

    @property
    def bytes(self) -> int:
        """What a token reads of it."""
        ...

    def __call__(self, x: Floats) -> Floats: ...

    def matrix(self) -> Floats:
        """What the integers stand for."""
        ...


@dataclass(frozen=True, slots=True)
class Int8Product:
    """W8A8."""

    weights: Int8s
    scales: Floats
    """One for each output."""
    input_scale: float

    @property
    def bytes(self) -> int:
        return self.weights.nbytes + 8 * len(self.scales)

    def integers(self, x: Floats) -> Int8s:
        """Activations as the NPU rounds them: fp16, times the inverse of the scale in fp16, to the nearest."""
        return round_input(x, self.input_scale)

    def sums(self, x: Floats) -> npt.NDArray[np.int32]:
        stored = self.integers(x).astype(np.float32)
        total = np.zeros((len(x), len(self.weights)), np.int32)
        for first in range(0, stored.shape[1], _EXACT_INPUTS):
            part = slice(first, first + _EXACT_INPUTS)
            total += (stored[:, part] @ self.weights[:, part].astype(np.float32).T).astype(np.int32)
        return total

    def __call__(self, x: Floats) -> Floats:
        return as_half(self.sums(x) * (self.scales * np.float32(self.input_scale)))

    def matrix(self) -> Floats:
        return self.weights.astype(np.float32) * self.scales[:, None]


@dataclass(frozen=True, slots=True)
class Int4Product:
    """W4A16."""

    weights: Int8s
    """-8 to 7, one to a byte here."""
    scales: Floats
    """[outputs, groups]."""

    @property
    def bytes(self) -> int:
        return self.weights.size // 2 + 2 * self.scales.size

    def __call__(self, x: Floats) -> Floats:
        size = self.weights.shape[1] // self.scales.shape[1]
        stored = as_half(x)
        total = np.zeros((len(x), len(self.weights)), np.float32)
        for group, scale in enumerate(self.scales.T):
            part = slice(group * size, (group + 1) * size)
            total += (stored[:, part] @ self.weights[:, part].astype(np.float32).T) * scale
        return as_half(total)

    def matrix(self) -> Floats:
        spread = np.repeat(self.scales, self.weights.shape[1] // self.scales.shape[1], axis=1)
        return self.weights.astype(np.float32) * spread


def round_input(x: Floats, scale: float) -> Int8s:
    """What the NPU makes of activations in fp16."""
    gain = np.float32(np.float16(1 / scale))
    made: Int8s = np.clip(np.rint(as_half(x) * gain), -INT8_MOST - 1, INT8_MOST).astype(np.int8)
    return made


def usable_scale(scale: float) -> float:
    """The nearest scale whose inverse is a number of fp16: what the NPU multiplies by."""
    return 1 / float(np.float16(1 / scale))


def as_half(x: Floats) -> Floats:
    """Rounded to fp16."""
    return x.astype(np.float16).astype(np.float32)


def int8_scales(matrix: Floats) -> Floats:
    """One for each output, as whole parts of the largest one: these are what the NPU multiplies sums by."""
    largest = np.abs(matrix).max(axis=1).astype(np.float64) / INT8_MOST
    largest[largest == 0] = largest.max() or 1.0
    made: Floats = (largest.max() * relative_scales(largest, up=True) / MULTIPLIER_UNIT).astype(np.float32)
    return made


def group_size(inputs: int, wanted: int = _LARGEST_GROUP) -> int:
    """Inputs that share a scale of int4: the most that divide all of them evenly."""
    sizes = [size for size in range(_GROUP_STEP, wanted + 1, _GROUP_STEP) if inputs % size == 0]
    return sizes[-1] if sizes else inputs


def group_inside(head: int, wanted: int) -> int:
    """The largest group that divides a head evenly, whose inputs the NPU keeps together; 0: there is none."""
    return max((size for size in range(_GROUP_STEP, min(wanted, head) + 1, _GROUP_STEP) if head % size == 0), default=0)


def int4_scales(matrix: Floats, group: int) -> Floats:
    """[outputs, groups], fp16: those with the least error of rounding."""
    parts = matrix.reshape(len(matrix), -1, group)
    largest = np.maximum(np.abs(parts).max(axis=2), np.float32(1e-8))
    best, least = largest / INT4_MOST, np.full(largest.shape, np.inf)
    for clip in _CLIPS:
        scale = as_half(largest * np.float32(clip) / INT4_MOST)
        scale = np.maximum(scale, np.float32(6e-8))
        rounded = np.clip(np.rint(parts / scale[:, :, None]), -INT4_MOST - 1, INT4_MOST) * scale[:, :, None]
        error = np.square(rounded - parts).sum(axis=2)
        best, least = np.where(error < least, scale, best), np.minimum(error, least)
    made: Floats = best.astype(np.float32)
    return made


def rounded(matrix: Floats, scales: Floats, most: int) -> Int8s:
    """To the nearest integers; `scales` are those of outputs, or [outputs, groups]."""
    spread = scales[:, None] if scales.ndim == 1 else np.repeat(scales, matrix.shape[1] // scales.shape[1], axis=1)
    made: Int8s = np.clip(np.rint(matrix / spread), -most - 1, most).astype(np.int8)
    return made
