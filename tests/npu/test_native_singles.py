"""Chains in single precision: the ranges that make them exact, checked with whole numbers at the ends and at ties."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn import numerics
from openrknn.nativelib.structures import ChainFlags
from openrknn.npu.native import singles, table

ROUNDED = 2**22
EXACT = 2**24
WORD = 2**15


def rounded(x: np.ndarray, factor: int | np.ndarray, shift: int, offset: int = 0) -> np.ndarray:
    return np.asarray(numerics.shift_right(x * factor + (offset << shift), shift))


def random_facts(seed: int) -> singles.Facts:
    random = np.random.default_rng(seed)
    limit = int(2 ** random.uniform(8, 27))
    largest = int(2 ** random.uniform(2, 15))
    facts = singles.Facts(limit=limit)
    if seed % 7:
        facts.factors = random.integers(-largest, largest + 1, 6)
        facts.factors[0], facts.shift = largest, int(random.integers(0, 18))
    middle = limit * largest >> facts.shift
    if seed % 3 == 1:
        scale, before = int(random.integers(-30000, 30000)), int(random.integers(-128, 128))
        facts.operand, facts.operand_limit = (scale, before, 0), (256 * abs(scale) >> 5) + 1
    if seed % 5 == 2:
        facts.middle = -int(random.integers(0, middle + 2)), int(random.integers(0, middle + 2))
    if seed % 11 == 3:
        facts.norm = int(random.integers(1, 2**15)), 0, int(random.integers(8, 16))
    scale = int(2 ** random.uniform(9, 15))
    shift = max(0, int(np.log2(scale * max(middle, 1) / 2 ** random.uniform(4, 16))))
    facts.out = scale * (1 if seed % 2 else -1), shift, int(random.integers(-200, 200))
    return facts


def sums_of(facts: singles.Facts, limit: int) -> np.ndarray:
    """The ends, what lies beside them, and ties of the scales."""
    near = [facts.limit, limit, 0, 1 << max(facts.shift - 1, 0), 3 << max(facts.shift - 1, 0), facts.limit // 3]
    places = np.array([number + step for number in near for step in (-1, 0, 1)], np.int64)
    random = np.random.default_rng(limit).integers(-facts.limit, facts.limit + 1, 200)
    return np.unique(np.clip(np.concatenate([places, -places, random]), -facts.limit, facts.limit))


def stages(
    facts: singles.Facts, sums: np.ndarray, factor: int, operand: int, bounds: list[tuple[int, int]], *, last: int = 0
) -> np.ndarray:
    """Bytes; what is rounded on the way, and the bound that it needs."""

    def seen(x: np.ndarray, bound: int) -> np.ndarray:
        bounds.append((int(np.abs(x).max()), bound))
        return x

    is_whole = facts.factors is not None and not facts.shift
    x = seen(rounded(seen(sums, ROUNDED), factor, facts.shift), EXACT if is_whole else ROUNDED)
    if facts.norm is not None:
        x = seen(rounded(x, facts.norm[0], facts.norm[2]), ROUNDED)
    if facts.middle is not None:
        x = np.clip(x, *facts.middle)
    x = seen(x + operand, EXACT)
    scale, shift, offset = facts.out
    return numerics.saturate(seen(rounded(x, scale, shift, offset), last or WORD), np.int8)


@pytest.mark.parametrize("seed", range(60))
def test_nothing_leaves_its_range_and_held_sums_give_the_same(seed: int) -> None:
    facts = random_facts(seed)
    flags, limit = singles.flags_of(facts, None)
    if not flags:
        return
    assert bool(flags & ChainFlags.SINGLE_CLAMP) == (facts.limit > limit)
    sums, last = sums_of(facts, limit), ROUNDED if flags & ChainFlags.SINGLE_WIDE else WORD
    for factor in [1] if facts.factors is None else facts.factors:
        for operand in {-facts.operand_limit, 0, facts.operand_limit}:
            bounds: list[tuple[int, int]] = []
            held = stages(facts, np.clip(sums, -limit, limit), int(factor), operand, bounds, last=last)
            assert all(found < bound for found, bound in bounds), (facts, bounds)
            np.testing.assert_array_equal(held, stages(facts, sums, int(factor), operand, []))


def test_usual_chains_are_single() -> None:
    made = [bool(singles.flags_of(random_facts(seed), None)[0]) for seed in range(60)]
    assert sum(made) > 20
    factors = np.array([6902, 0, 16384])
    usual = singles.Facts(limit=2**20, factors=factors, shift=14, out=(21618, 22, -128))
    assert singles.flags_of(usual, None) == (ChainFlags.SINGLE, ROUNDED - 2)
    usual.limit = 2**26
    assert singles.flags_of(usual, None)[0] == ChainFlags.SINGLE | ChainFlags.SINGLE_CLAMP
    usual.factors = np.array([1, 16384])  # 2^22 * 1 / 2^14 is no byte that is saturated
    assert not singles.flags_of(usual, None)[0]
    usual.factors, usual.multiplies = factors, True
    assert not singles.flags_of(usual, None)[0]


@pytest.mark.parametrize("norm", [None, (29764, 0, 14), (21446, 0, 8), (17304, 0, 15), (3, 0, 0), (16384, 0, 15)])
@pytest.mark.parametrize("shift", [0, 5])
def test_a_byte_for_each_number(norm: tuple[int, int, int] | None, shift: int) -> None:
    """Ties of the norm stage are at changes of the table: all numbers are tried."""
    random = np.random.default_rng(shift)
    count, low = 900, -400 << shift
    values = random.integers(0, 256, count + 1).astype(np.uint32)
    places = random.integers(0, 1 << shift, count).astype(np.uint32)
    before = np.where(places == 0, values[1:], values[:-1])
    made = table.Table(before | values[1:] << 8 | places << 16, low, low + (count << shift) - 1, shift)
    found = table.bytes_of(made, norm)
    assert found is not None
    numbers = np.arange(found.low - 5, found.low + len(found.values) + 5)
    after = numbers if norm is None else rounded(numbers, norm[0], norm[2])
    distance = np.clip(after, made.low, made.high) - made.low
    entry = made.entries[distance >> shift].astype(np.int64)
    is_after = (distance & ((1 << shift) - 1)) >= entry >> 16
    expected = np.where(is_after, entry >> 8 & 0xFF, entry & 0xFF).astype(np.uint8)
    got = found.values[np.clip(numbers - found.low, 0, len(found.values) - 1)]
    np.testing.assert_array_equal(got[1:], expected[1:])


def test_tables_that_are_too_long_or_fall_have_no_bytes() -> None:
    made = table.Table(np.array([0x0000_0100 | 7, 0x0003_0207], np.uint32), 0, 2 << 15, 15)
    assert table.bytes_of(made, None) is not None
    assert table.bytes_of(made, (1, 0, 3)) is None
    assert table.bytes_of(made, (-5, 0, 3)) is None
    assert table.bytes_of(made, (5, 1, 3)) is None
