"""Outputs as they are stored: int8 with scale and zero point, or floats.

    value = (stored - zero point) * scale

grows with `stored`, so "value >= threshold" is "stored >= limit" for one number `limit`. Most cells of a detector are
background: comparing int8 numbers first and making floats only of the few that pass is what makes decoding fast.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.container.model import TensorSpec
from openrknn.errors import UnsupportedError

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float32]

_FAR = 1 << 61
"""Whole numbers beyond it are not looked at; no score is there, and Python's ranges have an end."""
_PROBABILITY_SLACK = 0.05
"""The NPU's table for the sigmoid may end a little below zero (-0.007 was seen in fp16); before the sigmoid, background
is far lower than this."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a model's picture input, in pixels."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of decoding."""

    threshold: float = 0.25
    """Objects with a lower score are left out."""
    overlap: float = 0.45
    """Of two boxes of one class whose intersection over union is larger, the weaker one goes."""
    limit: int = 300
    """At most this many objects, the best ones."""
    sigmoid: bool | None = None
    """Whether scores still need it; None: see `Head.is_logits`."""
    every_class: bool = False
    """Each class of a cell that passes is a candidate, not only its best one: how the average precision of detectors is
    measured."""


@dataclass(frozen=True, slots=True)
class Head:
    """One output of a model in its original shape, elements as they are stored."""

    name: str
    values: Array
    scale: float = 1.0
    zero_point: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.scale < math.inf:  # NaN neither
            raise UnsupportedError(
                f"output {self.name!r} has the scale {self.scale}: stored numbers stand for nothing; convert it again"
            )

    @property
    def is_quantized(self) -> bool:
        """Whether the elements are integers that stand for real numbers."""
        return self.values.dtype.kind in "iu" and (self.scale != 1.0 or self.zero_point != 0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the output, as the model has it."""
        return tuple(self.values.shape)

    def real(self, stored: Array) -> Floats:
        """The numbers that stored ones stand for."""
        values = stored.astype(np.float32)
        if self.is_quantized:
            values -= np.float32(self.zero_point)
            values *= np.float32(self.scale)
        return values

    def limit(self, threshold: float) -> float:
        """The smallest stored number that stands for `threshold` or more; one above the type's largest if none does."""
        if not self.is_quantized:
            return threshold
        return _limit(self.values.dtype, self.scale, self.zero_point, threshold)

    def score_limit(self, settings: Settings, *, is_logits: bool) -> float:
        """`limit` for a score: where the sigmoid is still missing, sigmoid(x) >= t is x >= ln(t / (1 - t))."""
        threshold = min(max(settings.threshold, 1e-6), 1 - 1e-6)
        return self.limit(math.log(threshold / (1 - threshold)) if is_logits else settings.threshold)

    def is_logits(self, scores: Array, settings: Settings) -> bool:
        """Whether the sigmoid of `scores` is still missing. Probabilities are never negative, and the scores of
        background are far below zero before the sigmoid, so one look at the smallest number tells."""
        if settings.sigmoid is not None:
            return settings.sigmoid
        if not scores.size or (self.is_quantized and self.zero_point <= np.iinfo(scores.dtype).min):
            return False  # with this zero point nothing negative can be stored
        smallest = self._one(scores.min())
        return smallest < -max(_PROBABILITY_SLACK, self.scale / 2 if self.is_quantized else 0)

    def _one(self, stored: Any) -> float:
        """`real` of one number, which may lie outside the stored type."""
        if not self.is_quantized:
            return float(stored)
        return _real(self.scale, self.zero_point, stored)


def _real(scale: float, zero_point: int, stored: Any) -> float:
    return float((np.float32(stored) - np.float32(zero_point)) * np.float32(scale))


@lru_cache(maxsize=128)  # the same for every picture
def _limit(dtype: np.dtype[Any], scale: float, zero_point: int, threshold: float) -> int:
    """By bisection over the type, so that no rounding of a division and no scale, however small, matters."""
    ends = np.iinfo(dtype)
    every = range(max(int(ends.min), -_FAR), min(int(ends.max), _FAR) + 1)
    wanted = float(np.float32(threshold))  # as NumPy compares it with the float32 numbers of `Head.real`
    found = every.start + bisect_left(every, wanted, key=partial(_real, scale, zero_point))
    return found if found < every.stop else int(ends.max) + 1


def heads_of(specs: Sequence[TensorSpec], outputs: Mapping[str, Array]) -> list[Head]:
    """The outputs of `session.run(..., outputs="raw")` (or "float") with what the model says about them."""
    return [_head(spec, outputs[spec.name]) for spec in specs]


def _head(spec: TensorSpec, values: Array) -> Head:
    scale = spec.quantization
    if scale is None or values.dtype.kind not in "iu" or not scale.scale:
        return Head(spec.name, values)
    return Head(spec.name, values, float(scale.scale[0]), int(scale.zero_point[0]))


def original_shape(spec: TensorSpec) -> tuple[int, ...]:
    """The shape that `session.run` gives: channels before rows, whatever the layout of the spec."""
    if spec.layout == "nhwc" and len(spec.shape) == 4:
        batches, height, width, channels = spec.shape
        return (batches, channels, height, width)
    return spec.shape
