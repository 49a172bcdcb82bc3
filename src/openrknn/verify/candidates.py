"""The candidates' arithmetic: exact integers on a case's data, and nothing of the software NPU's own code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.verify.cases import AVERAGED, BEYOND_ABOVE, BEYOND_BELOW, HALF_TABLE_FACTOR, TABLES, Case

Ints: TypeAlias = npt.NDArray[np.int64]
Answer: TypeAlias = npt.NDArray[np.int8]
Rule: TypeAlias = Callable[[Case], Answer]
EVEN, UP, AWAY, FLOOR, ZERO = (
    "halves to even", "halves up", "halves away from zero", "rounded down", "rounded towards zero",
)  # fmt: skip
_ALL = EVEN, UP, AWAY, FLOOR, ZERO
_TABLE_START, _TABLE_STEP_BITS = 16384, 5


def by_name(names: Iterable[str], answer: Callable[[Case, str], Answer]) -> dict[str, Rule]:
    """One candidate per name of a rounding."""

    def rule(name: str) -> Rule:
        return lambda case: answer(case, name)

    return {name: rule(name) for name in names}


def _rounded(sums: Ints, shift: int) -> dict[str, Ints]:
    """sums / 2^shift by every rule."""
    floor, rest, half = sums >> shift, sums & (1 << shift) - 1, 1 << shift - 1
    is_tie = rest == half
    nearest = floor + (rest > half)
    return {
        EVEN: nearest + (is_tie & (floor & 1 == 1)),
        UP: nearest + is_tie,
        AWAY: nearest + (is_tie & (floor >= 0)),
        FLOOR: floor,
        ZERO: floor + ((sums < 0) & (rest != 0)),
    }


def _int8(values: Ints) -> Answer:
    return np.clip(values, -128, 127).astype(np.int8)


def _numbers(data: npt.NDArray[np.uint8]) -> Ints:
    return data.view(np.int8).astype(np.int64)


def shifts(sums: Callable[[Case], Ints], shift: int) -> dict[str, Rule]:
    """The five roundings of one shift."""

    return by_name(_ALL, lambda case, name: _int8(_rounded(sums(case), shift)[name]))


def source(case: Case) -> Ints:
    """The case's input as numbers."""
    return _numbers(case.source)


def operand(case: Case) -> Ints:
    """Its second input."""
    return _numbers(case.weights)[: case.target_bytes]


def once(case: Case, name: str) -> Answer:
    """(x + (3 << 1)) >> 1"""
    return _int8(_rounded(source(case) + (3 << 1), 1)[name])


def then_offset(case: Case) -> Answer:
    """(x >> 1) + 3"""
    return _int8(_rounded(source(case), 1)[EVEN] + 3)


def leaky(case: Case, *, both: bool) -> Answer:
    """(x < 0 ? 3 * x : x) >> 2, or x >= 0 left alone."""
    x = source(case)
    shifted = _rounded(np.where(x < 0, 3 * x, x), 2)[EVEN]
    return _int8(shifted if both else np.where(x < 0, shifted, x))


def _windows(case: Case, kernel: int) -> Ints:
    """[kernel rows, outputs, kernel columns, channels] of the pooling cases: `kernel` rows of pixels."""
    return source(case).reshape(kernel, -1, kernel, 16)


def average(case: Case, kernel: int, name: str) -> Answer:
    """The whole window at once."""
    reciprocal = AVERAGED[kernel]
    total = _windows(case, kernel).sum((0, 2))
    return _int8(_rounded(total * reciprocal * reciprocal, 32)[name]).reshape(-1)


def average_twice(case: Case, kernel: int) -> Answer:
    """First along the rows, then along the columns, rounded both times."""
    reciprocal = AVERAGED[kernel]
    rows = _rounded(_windows(case, kernel).sum(2) * reciprocal, 16)[EVEN]
    return _int8(_rounded(rows.sum(0) * reciprocal, 16)[EVEN]).reshape(-1)


# ------------------------------------------------------------------------------------------------ tables


def table_answer(case: Case, factor: int, name: str) -> Answer:
    """T[i] + (T[i + 1] - T[i]) * f / 32, beyond the ends a straight line; rounded by a rule."""
    x = source(case) * factor
    low, high = TABLES.astype(np.int64)
    place = np.where(x < 0, x + _TABLE_START, x)
    index = np.clip(place >> _TABLE_STEP_BITS, 0, 511)
    first, second = (np.where(x < 0, low[index + more], high[index + more]) for more in (0, 1))
    between = (first << _TABLE_STEP_BITS) + (second - first) * (place - (index << _TABLE_STEP_BITS))
    below = (low[0] << BEYOND_BELOW[1]) + (x + _TABLE_START) * BEYOND_BELOW[0]
    above = (high[512] << BEYOND_ABOVE[1]) + (x - _TABLE_START) * BEYOND_ABOVE[0]
    parts = [_rounded(between, 5)[name], _rounded(below, BEYOND_BELOW[1])[name], _rounded(above, BEYOND_ABOVE[1])[name]]
    return _int8(np.select([x < -_TABLE_START, x > _TABLE_START], parts[1:], parts[0]))


def half_table(case: Case, *, whole: str) -> Answer:
    """fp16 through a table: a line through both entries, or the argument made whole first and the result floored."""
    x = (case.source.view(np.float16).astype(np.float32) * np.float32(HALF_TABLE_FACTOR)).astype(np.float64)
    if whole:
        x = np.rint(x) if whole == EVEN else np.floor(x)
    low, high = TABLES.astype(np.float64)
    place = np.where(x < 0, x + _TABLE_START, x) / 32
    index = np.clip(np.floor(place), 0, 511).astype(np.int64)
    first, second = (np.where(x < 0, low[index + more], high[index + more]) for more in (0, 1))
    value = first + (second - first) * (place - index)
    halves: npt.NDArray[np.float16] = (np.floor(value) if whole else value).astype(np.float16)
    return halves.view(np.int8)


# ------------------------------------------------------------------------------------------------ floats


def _half_values(case: Case) -> npt.NDArray[np.float64]:
    return case.source.view(np.float16).astype(np.float64)


def to_bytes(case: Case, name: str) -> Answer:
    """fp16 to int8; the numbers of the case are multiples of 1/8."""
    return _int8(_rounded((_half_values(case) * 8).astype(np.int64), 3)[name])


def third(case: Case, *, towards_zero: bool) -> Answer:
    """x times the fp16 number next to 1/3, exact in doubles, as fp16."""
    with np.errstate(invalid="ignore", over="ignore"):
        exact = _half_values(case) * float(np.uint16(0x3555).view(np.float16))
        nearest = exact.astype(np.float16)
        away = np.abs(nearest.astype(np.float64)) > np.abs(exact)
        cut = np.where(away, np.nextafter(nearest, np.float16(0)), nearest)
    found = cut if towards_zero else nearest
    return np.where(np.isnan(found), np.float16(np.nan), found).view(np.int8)  # one NaN for all
