"""Error metrics: the only place for cosine, signal-to-noise ratio and steps.

    measure     real numbers against their reference
    in_steps    stored integers against the reference, in steps of the quantisation
    in_bits     stored numbers of one type against each other, in steps of the integer or of the last bit of the float

The reference may be infinite or NaN (a masked attention, say): such elements do not count. Where only our number is,
it overflowed, and no cosine makes that good.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Int64s: TypeAlias = npt.NDArray[np.int64]

EQUAL_DB = 200.0
"""Stands for infinitely many decibels, which JSON cannot say; nothing that was rounded comes near."""


@dataclass(frozen=True, slots=True)
class Distance:
    """Real numbers against their reference."""

    elements: int
    cosine: float | None
    """None where one side is all zeros."""
    largest_error: float
    relative_error: float | None
    """|| ours - reference || / || reference ||; None where the reference is all zeros."""
    snr_db: float
    """10 log10 (power of the reference / power of the error): `EQUAL_DB` where there is no error, its negative where
    there is no signal or anything overflowed."""
    overflowed: int
    """Elements that are infinite or NaN and should not be."""
    reference_max: float
    """Largest absolute value of the reference."""


def measure(values: Array, reference: Array) -> Distance:
    """Two arrays of one size, in any shape."""
    left, right = values.astype(np.float64).reshape(-1), reference.astype(np.float64).reshape(-1)
    elements, wanted = right.size, np.isfinite(right)
    finite = np.isfinite(left) & wanted
    overflowed = int(wanted.sum()) - int(finite.sum())
    if not finite.all():
        left, right = left[finite], right[finite]
    difference = left - right
    error, power = float(np.sum(difference**2)), float(np.sum(right**2))
    strength = float(np.linalg.norm(right))
    return Distance(
        elements=elements,
        cosine=_share(float(left @ right), strength * float(np.linalg.norm(left))),
        largest_error=float(np.abs(difference).max(initial=0)),
        relative_error=_share(float(np.linalg.norm(difference)), strength),
        snr_db=-EQUAL_DB if overflowed else _decibels(power, error),
        overflowed=overflowed,
        reference_max=float(np.abs(right).max(initial=0)),
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _decibels(power: float, error: float) -> float:
    if not error:
        return EQUAL_DB
    ratio = power / error
    return max(-EQUAL_DB, min(EQUAL_DB, 10 * math.log10(ratio))) if ratio else -EQUAL_DB


@dataclass(frozen=True, slots=True)
class Steps:
    """Stored integers against the reference."""

    differences: Int64s
    """In steps, flat."""
    clipped: int
    """Elements whose reference does not fit into the range of the integers."""

    @property
    def equal(self) -> float:
        """Share of elements with the same stored number as the quantised reference."""
        return float((self.differences == 0).mean())

    @property
    def within_one(self) -> float:
        return float((np.abs(self.differences) <= 1).mean())


def in_steps(stored: Array, reference: Array, scale: float, zero_point: int) -> Steps:
    """The reference is real; it is quantised in single precision, as the simulator does: a tie there is a tie here."""
    limits = np.iinfo(stored.dtype)
    single = reference.reshape(-1).astype(np.float32) / np.float32(scale)
    exact = np.nan_to_num(np.rint(single)).astype(np.int64) + zero_point
    inside = np.clip(exact, limits.min, limits.max)
    return Steps(stored.reshape(-1).astype(np.int64) - inside, int((inside != exact).sum()))


def in_bits(values: Array, reference: Array) -> Int64s:
    """How many numbers of their type lie between two arrays, element by element: 1 for neighbours."""
    difference: Int64s = _ordered(values) - _ordered(reference)
    return difference


def _ordered(values: Array) -> Int64s:
    """Whole numbers in the order of the values, one apart for neighbours; both zeros of a float are 0."""
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    bits = values.view(f"i{values.itemsize}").astype(np.int64)
    magnitude = bits & (2 ** (8 * values.itemsize - 1) - 1)
    return np.where(bits < 0, -magnitude, bits)
