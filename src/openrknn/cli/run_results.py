"""What came out of a model: the best classes with their names, or the shape and range of every output."""

from __future__ import annotations

import glob
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openrknn.cli.files import os_problem
from openrknn.cli.output import CommandError
from openrknn.cli.run_inputs import Array, Fed
from openrknn.container.model import TensorSpec

__all__ = [
    "Class",
    "Labels",
    "Outcome",
    "Summary",
    "best_classes",
    "dequantized",
    "find_labels",
    "is_classification",
    "read_labels",
    "summarize",
]

_FEWEST_CLASSES = 10
"""An output of fewer numbers is hardly a list of classes, unless somebody brings their names."""
_SUM_TOLERANCE = 0.03
_LARGEST_LABEL_FILE = 1 << 24


@dataclass(frozen=True, slots=True)
class Class:
    """One row of the table of the best."""

    number: int
    label: str
    score: float
    """As the model gives it."""
    probability: float


@dataclass(frozen=True, slots=True)
class Labels:
    """Names of classes, and where they come from."""

    names: tuple[str, ...]
    path: str


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


def read_labels(path: str, classes: int | None) -> Labels:
    """One name per line; their number must be that of the classes."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_LARGEST_LABEL_FILE)
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error
    names = tuple(text.removesuffix("\n").split("\n"))
    names = tuple(name.strip() for name in names)
    if classes is not None and len(names) != classes:
        raise CommandError(f"{path}: {len(names)} lines for {classes} classes; give one name per line")
    return Labels(names, path)


def find_labels(model_path: str, shapes: Sequence[tuple[int, ...]]) -> Labels | None:
    """A file of names beside the model with as many lines as the model has classes; None if none or several fit."""
    classes = {max(shape, default=0) for shape in shapes if sum(size != 1 for size in shape) == 1}
    if len(shapes) != 1 or not classes:
        return None
    folder, name = os.path.split(model_path)
    stem = os.path.join(folder, os.path.splitext(name)[0])
    others = sorted(glob.glob(os.path.join(glob.escape(folder), "*_labels.txt")))
    fitting = []
    for path in dict.fromkeys((f"{stem}_labels.txt", os.path.join(folder, "labels.txt"), *others)):
        if os.path.isfile(path) and os.path.getsize(path) < _LARGEST_LABEL_FILE:
            labels = read_labels(path, None)
            if len(labels.names) in classes:
                fitting.append(labels)
    # The two names that are meant for this model win; among all others only a single one can be trusted.
    meant = [labels for labels in fitting if labels.path in {f"{stem}_labels.txt", os.path.join(folder, "labels.txt")}]
    return meant[0] if meant else fitting[0] if len(fitting) == 1 else None
