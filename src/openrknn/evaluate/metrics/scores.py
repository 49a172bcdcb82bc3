"""What a scorer gives, and how sure its main number is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

RESAMPLES = 200
_SEED = 20_261_118


@dataclass(frozen=True, slots=True)
class ClassScore:
    """One row of the per-class table."""

    name: str
    count: int
    """Objects or samples of the class."""
    value: float | None
    """The main metric for this class; None where there is nothing to measure."""
    more: Mapping[str, float | None] = field(default_factory=dict)
    """Others by the names of metrics, or "precision" and "recall" for classifiers."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Precision at 101 values of recall from 0 to 1, at IoU 0.50."""

    name: str
    precision: Array


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """All numbers of one model on one dataset."""

    primary: str
    """The name of the main metric."""
    values: Mapping[str, float | None]
    classes: Sequence[ClassScore] = ()
    qualities: Array = field(default_factory=lambda: np.zeros(0))
    """[samples], 0 to 1: how well each sample went, to find the worst."""
    resample: Callable[[Array], Array] | None = None
    """[resamples, samples] of weights -> [resamples] of the main metric; NaN where it has no value."""
    curves: Sequence[Curve] = ()
    confusion: Array | None = None
    """[actual, predicted] counts."""

    @property
    def value(self) -> float | None:
        """The main metric."""
        return self.values.get(self.primary)


def weights_for(samples: int, resamples: int = RESAMPLES) -> Array:
    """[resamples, samples]: how often each sample is drawn. The seed is fixed: the same data give the same interval."""
    if samples < 1:
        return np.zeros((resamples, 0), np.int64)
    return np.random.default_rng(_SEED).multinomial(samples, np.full(samples, 1 / samples), size=resamples)


def interval(values: Array, measured: float, level: float = 0.95) -> tuple[float, float] | None:
    """The middle `level` of resampled values around what was measured (bootstrap, corrected for its bias).

    A resample repeats images and lacks others. Where a metric is no mean over samples, as average precision, that alone
    moves it: the mean of the resamples is moved back to the measured value.
    """
    good = values[np.isfinite(values)]
    if len(good) < 20:
        return None
    low, high = np.quantile(good, ((1 - level) / 2, (1 + level) / 2)) - good.mean() + measured
    return float(low), float(high)
