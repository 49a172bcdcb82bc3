"""Chains in single precision, where that is proved to be exact: four numbers in a vector instead of two.

A fused multiply-add rounds once. With M = 1.5 * 2^23 as its addend it gives M + x * scale, rounded to the nearest
integer with ties to even, as long as x and the scale are floats and the result is below 2^22 in magnitude. Sums can be
larger: they are held below a limit beyond which the byte is saturated for certain. native/openrknn.h has the formulas.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from openrknn.nativelib.structures import ChainFlags
from openrknn.npu.native.table import Bytes, Table
from openrknn.records import dataclass

_ROUNDS = 2**22
_EXACT = 2**24
_WORD = 2**15
_SATURATED = 129
_MOST_SHIFT, _LARGEST_FACTOR = 21, 2**20
"""Up to these M * (1 - factor / 2^shift) is a float."""
_OFFSET = 2**14


@dataclass
class Facts:
    """What the stages of a chain do, as far as it is known. `limit` and `operand_limit` are the largest magnitudes."""

    limit: int = 0
    factors: npt.NDArray[np.int64] | None = None
    shift: int = 0
    norm: tuple[int, int, int] | None = None
    """Factor, addend, shift."""
    middle: tuple[int, int] | None = None
    multiplies: bool = False
    operand: tuple[int, int, int] | None = None
    """Scale, and what is added before and after it."""
    operand_limit: int = 0
    out: tuple[int, int, int] = (0, 0, 0)
    """Scale, shift, offset."""
    table: Table | None = None


def flags_of(facts: Facts, found: Bytes | None) -> tuple[ChainFlags, int]:
    """The flags of a chain in single precision and the limit of its sums; no flags where it would not be exact.

    `found` is the table of `facts` with a byte for each number before its stage `norm`, where there is one.
    """
    none, flags = (ChainFlags(0), 0), ChainFlags.SINGLE
    factors = np.ones(1, np.int64) if facts.factors is None else facts.factors
    magnitudes = np.abs(factors)
    largest = int(magnitudes.max(initial=0))
    smallest = int(magnitudes[magnitudes > 0].min(initial=_EXACT))
    if facts.multiplies or largest >= _LARGEST_FACTOR or facts.shift > _MOST_SHIFT:
        return none
    highest = _ROUNDS - 1
    if facts.factors is not None and not facts.shift and facts.table is None:
        flags |= ChainFlags.SINGLE_WHOLE
        if facts.limit * largest + facts.operand_limit >= _EXACT:
            return none
    elif largest:
        highest = min(highest, (_ROUNDS - 2 << facts.shift) // largest)
    if facts.table is not None:
        if found is None and facts.norm is not None:
            factor, addend, shift = facts.norm
            if addend or abs(factor) >= _EXACT:
                return none
            if factor and largest:
                highest = min(highest, (((_ROUNDS - 2 << shift) // abs(factor) - 1) << facts.shift) // largest)
            flags |= ChainFlags.SINGLE_NORM
    elif not _out_fits(facts):
        return none
    elif min(facts.limit, highest) > _limit_of_words(facts, largest, _WORD):
        flags |= ChainFlags.SINGLE_WIDE
        highest = min(highest, _limit_of_words(facts, largest, _ROUNDS))
    if facts.limit <= highest:
        return flags, highest
    if highest <= 0 or (facts.norm is not None and facts.table is None) or flags & ChainFlags.SINGLE_WHOLE:
        return none
    # What is left of the numbers beyond the limit must still be saturated.
    least = (highest * smallest >> facts.shift) - 1
    return (flags | ChainFlags.SINGLE_CLAMP, highest) if _is_saturated(facts, found, least) else none


def _is_saturated(facts: Facts, found: Bytes | None, least: int) -> bool:
    """Whether all numbers of at least this magnitude, behind the scales, give the same byte as those beyond."""
    if found is not None:
        return least >= max(abs(found.low), abs(found.low + len(found.values)))
    if facts.table is not None:
        if facts.norm is not None:
            least = (least * abs(facts.norm[0]) >> facts.norm[2]) - 1
        return least >= max(abs(facts.table.low), abs(facts.table.high))
    scale, shift, offset = facts.out
    is_far = facts.middle is None or least >= max(map(abs, facts.middle))
    return is_far and (least - facts.operand_limit) * abs(scale) >= _SATURATED + abs(offset) << shift


def _out_fits(facts: Facts) -> bool:
    """Scales and addends that are floats, and operands that are rounded below 2^22."""
    scale, _, offset = facts.out
    fits = 0 < abs(scale) < _EXACT and abs(offset) <= _OFFSET
    if facts.norm is not None:
        factor, addend, shift = facts.norm
        fits = fits and abs(factor) < _EXACT and addend == 0
        after = (facts.limit * _factor(facts) * abs(factor) >> facts.shift + shift) + 2
        fits = fits and after < _ROUNDS
    if facts.middle is not None:
        fits = fits and max(map(abs, facts.middle)) < _EXACT
    if facts.operand is not None:
        fits = fits and all(abs(number) < _ROUNDS // 2 for number in facts.operand) and facts.operand_limit < _ROUNDS
    return fits


def _factor(facts: Facts) -> int:
    return 1 if facts.factors is None else int(np.abs(facts.factors).max(initial=0))


def _limit_of_words(facts: Facts, largest: int, bound: int) -> int:
    """Sums up to this magnitude leave the output converter below `bound`."""
    scale, shift, offset = facts.out
    last = (bound - 2 - abs(offset) << shift) // abs(scale) - facts.operand_limit - 2
    if facts.norm is not None:
        last = (last - 2 << facts.norm[2]) // max(abs(facts.norm[0]), 1)
    if facts.middle is not None:
        return _ROUNDS if max(map(abs, facts.middle)) <= last else -1
    return (last - 2 << facts.shift) // max(largest, 1)
