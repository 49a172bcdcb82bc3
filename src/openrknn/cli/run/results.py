"""What came out of a model: the best classes with their names, or the shape and range of every output."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.cli.common.inputs import Array, Fed
from openrknn.cli.common.labels import Labels
from openrknn.container.model import TensorSpec

__all__ = ["Class", "Outcome", "Summary", "best_classes", "dequantized", "is_classification", "summarize"]

_FEWEST_CLASSES = 10
"""An output of fewer numbers is hardly a list of classes, unless somebody brings their names."""
_SUM_TOLERANCE = 0.03


@dataclass(frozen=True, slots=True)
class Class:
    """One row of the table of the best."""

    number: int
    label: str
    score: float
    """As the model gives it."""
    probability: float


@dataclass(frozen=True, slots=True)
class Summary:
    """One output in a few numbers; None where it has no finite ones."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    minimum: float | None
    maximum: float | None
    mean: float | None
    not_finite: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything about one run that is shown."""

    fed: Sequence[Fed]
    summaries: list[Summary]
    best: list[Class] | None
    """The best classes; None where the output is no list of classes."""
    labels: Labels | None

    @classmethod
    def of(
        cls,
        fed: Sequence[Fed],
        results: Mapping[str, Array],
        labels: Labels | None,
        *,
        real: Mapping[str, Array],
        top: int,
        asked: bool,
    ) -> Outcome:
        """From the outputs and their `real` values; with `asked` even a short output is a list of classes."""
        best = None
        if is_classification(real, labels, asked=asked):
            best = best_classes(next(iter(real.values())), top, labels)
        return cls(fed, summarize(results), best, labels)


def dequantized(specs: Sequence[TensorSpec], results: Mapping[str, Array]) -> dict[str, Array]:
    """Stored numbers as the real ones that they stand for."""
    scales = {spec.name: spec.quantization for spec in specs}
    found: dict[str, Array] = {}
    for name, array in results.items():
        scale = scales.get(name)
        integers = scale is not None and array.dtype.kind in "iu"
        found[name] = (array.astype(np.float32) - scale.zero_point[0]) * scale.scale[0] if integers and scale else array
    return found


def summarize(outputs: Mapping[str, Array]) -> list[Summary]:
    """Shape, type and range of every output."""
    return [_summary(name, array) for name, array in outputs.items()]


def _summary(name: str, array: Array) -> Summary:
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    low, high, mean = (finite.min(), finite.max(), finite.mean()) if finite.size else (None, None, None)
    return Summary(
        name=name,
        shape=tuple(array.shape),
        dtype=array.dtype.name,
        minimum=None if low is None else float(low),
        maximum=None if high is None else float(high),
        mean=None if mean is None else float(mean),
        not_finite=int(numbers.size - finite.size),
    )


def is_classification(outputs: Mapping[str, Array], labels: Labels | None, *, asked: bool) -> bool:
    """One output with one real dimension, and long enough to be a list of classes."""
    if len(outputs) != 1:
        return False
    (array,) = outputs.values()
    sizes = [size for size in array.shape if size != 1]
    return len(sizes) == 1 and (asked or labels is not None or sizes[0] >= _FEWEST_CLASSES)


def best_classes(array: Array, count: int, labels: Labels | None) -> list[Class]:
    """The classes with the highest scores, ties by number."""
    scores = array.astype(np.float64).reshape(-1)
    probabilities = _probabilities(scores)
    order = np.argsort(-np.where(np.isnan(scores), -np.inf, scores), kind="stable")[:count]
    return [
        Class(
            number=int(number),
            label=labels.names[number] if labels else "",
            score=float(scores[number]),
            probability=float(probabilities[number]),
        )
        for number in order
    ]


def _probabilities(scores: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The scores themselves where they are probabilities already, else their softmax."""
    if scores.min(initial=0) >= 0 and math.isclose(scores.sum(), 1, abs_tol=_SUM_TOLERANCE):
        return scores
    finite = np.where(np.isfinite(scores), scores, np.finfo(np.float64).min)
    powers = np.exp(finite - finite.max())
    result: np.ndarray[Any, np.dtype[np.float64]] = powers / powers.sum()
    return result
