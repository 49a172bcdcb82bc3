"""How far two tensors are apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.container.parts import Tensor
from openrknn.distance import EQUAL_DB, in_steps, measure

Array = npt.NDArray[Any]
_MOST_STEPS = 4
STEPS = tuple(range(-_MOST_STEPS, _MOST_STEPS + 1))
"""Differences in the histogram; larger ones count as the last."""
_CELLS = 48


@dataclass(frozen=True, slots=True)
class Metrics:
    """One tensor against its reference. What does not apply is None."""

    elements: int
    cosine: float | None
    max_error: float
    """Largest absolute difference."""
    relative_error: float | None
    """|| ours - reference || / || reference ||"""
    snr_db: float | None
    """20 log10 of the inverse; None where the two are equal or the reference is 0; -200 where anything overflowed."""
    equal: float | None
    """Quantised tensors: share of elements with the same stored number as the quantised reference."""
    within_one: float | None
    """Share that differs by at most one step."""
    steps: tuple[int, ...] | None
    """Elements by difference in steps: -4 or less ... 4 or more."""
    at_low: int
    """Elements at the lower end of the integer type."""
    at_high: int
    clipped: int
    """Elements whose reference does not fit into the range of the tensor."""
    overflowed: int
    """Elements that are infinite or NaN and should not be."""
    reference_max: float
    """Largest absolute value of the reference."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """Pairs (reference, ours) counted in square cells over one range for both axes."""

    low: float
    high: float
    counts: tuple[tuple[int, ...], ...]
    """[reference][ours]."""


def cloud_of(ours: Array, reference: Array) -> Cloud | None:
    """None where there is nothing finite to count."""
    left, right = ours.astype(np.float64).reshape(-1), reference.astype(np.float64).reshape(-1)
    finite = np.isfinite(left) & np.isfinite(right)
    if not finite.any():
        return None
    left, right = left[finite], right[finite]
    low, high = float(min(left.min(), right.min())), float(max(left.max(), right.max()))
    if low == high:
        low, high = low - 1, high + 1
    counts, _, _ = np.histogram2d(right, left, bins=_CELLS, range=((low, high), (low, high)))
    return Cloud(low, high, tuple(tuple(row) for row in counts.astype(int).tolist()))


def compare(ours: Array, stored: Array, reference: Array, tensor: Tensor) -> Metrics:
    """`ours` are the real numbers that `stored` stands for; all of one size."""
    found = measure(ours, reference)
    steps = None
    if tensor.quantization is not None and stored.dtype.kind == "i":
        steps = in_steps(stored, reference, tensor.quantization.scale[0], tensor.quantization.zero_point[0])
    low, high = _ends(stored)
    return Metrics(
        elements=found.elements,
        cosine=found.cosine,
        max_error=found.largest_error,
        relative_error=found.relative_error,
        snr_db=found.snr_db if abs(found.snr_db) < EQUAL_DB or found.overflowed else None,
        equal=None if steps is None else steps.equal,
        within_one=None if steps is None else steps.within_one,
        steps=None if steps is None else _histogram(steps.differences),
        at_low=low,
        at_high=high,
        clipped=steps.clipped if steps else 0,
        overflowed=found.overflowed,
        reference_max=found.reference_max,
    )


def _histogram(differences: npt.NDArray[np.int64]) -> tuple[int, ...]:
    bins = np.bincount(np.clip(differences, -_MOST_STEPS, _MOST_STEPS) + _MOST_STEPS, minlength=2 * _MOST_STEPS + 1)
    return tuple(bins.tolist())


def _ends(stored: Array) -> tuple[int, int]:
    if stored.dtype.kind != "i":
        return 0, 0
    limits = np.iinfo(stored.dtype)
    return int((stored == limits.min).sum()), int((stored == limits.max).sum())
