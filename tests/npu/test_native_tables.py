"""Tables of the native chain beside the stages that they stand for, number by number."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn import numerics
from openrknn.isa import Precision
from openrknn.npu.blocks.dpu import ew, out_cvt
from openrknn.npu.native import table
from openrknn.task import ew as task_ew
from openrknn.task import lut
from openrknn.task import out_cvt as task_out_cvt

ENTRIES = 513


def curves(seed: int) -> np.ndarray:
    """Smooth, falling, jumping and constant entries."""
    random = np.random.default_rng(seed)
    x = np.linspace(-6, 6, 2 * ENTRIES - 1)
    smooth = (x / (1 + np.exp(-x)) * 4000).astype(np.int64)
    kinds = [smooth, -smooth, random.integers(-(2**15), 2**15, len(x)), np.full(len(x), 77),
             np.where(random.random(len(x)) < 0.1, 20000, smooth)]  # fmt: skip
    chosen = kinds[seed % len(kinds)]
    return np.stack([chosen[:ENTRIES], chosen[ENTRIES - 1 :]])


def config_of(seed: int) -> task_ew.Config:
    select = seed % 5
    span = (ENTRIES - 1) << select
    pieces = (lut.Piece(span + 40, 9000, lut.Slope(-2, 1)),) if seed % 2 else ()
    found = lut.Config(
        entries=curves(seed), le_start=-span, lo_start=0, lo_end=span, le_select=select, lo_select=select,
        below=lut.Slope(seed - 3, 1), above=lut.Slope(3, 2), further_above=pieces,
    )  # fmt: skip
    return task_ew.Config(table=found, operation=None, clamp=None)


def out_of(seed: int) -> task_out_cvt.Config:
    return task_out_cvt.Config(
        scale=(5, -3, 90)[seed % 3], shift=9, offset=seed - 4, precision=Precision.INT8, minus_exponent=0,
        rounding=numerics.Rounding.EVEN, add_first=False,
    )  # fmt: skip


def made_of(seed: int, low: int, high: int) -> tuple[object, ...] | None:
    try:
        made = table.build(config_of(seed), out_of(seed), low, high, table.Cache())
    except table.TooLongError:
        return None
    return made.entries.tobytes(), *made[1:]


@pytest.mark.parametrize("seed", range(15))
def test_tables_of_a_curve_are_those_of_a_search(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By formula, number by number, and by trying where straight lines meet."""
    for low, high in ((-12_000, 15_000), (-700, 300)):
        tables: list[object] = []
        for longest, turns in ((table._LONGEST_CURVE, table._TURNS), (table._LONGEST_CURVE, -1), (0, 0)):
            monkeypatch.setattr(table, "_KEPT", table._Kept(0))
            monkeypatch.setattr(table, "_LONGEST_CURVE", longest)
            monkeypatch.setattr(table, "_TURNS", turns)
            tables.append(made_of(seed, low, high))
            monkeypatch.undo()
        assert tables[0] == tables[1] == tables[2]


@pytest.mark.parametrize("seed", range(15))
def test_a_table_says_what_the_stages_say(seed: int) -> None:
    config, out = config_of(seed), out_of(seed)
    low, high = -12_000 - seed, 15_000
    try:
        made = table.build(config, out, low, high, table.Cache())
    except table.TooLongError:
        assert seed % 5 == 2  # noise changes in every number
        return
    numbers = np.arange(low, high + 1)
    expected = numerics.saturate(out_cvt.apply(ew.apply(numbers, config, lambda: numbers), out), np.int8)
    distance = np.clip(numbers, made.low, made.high) - made.low
    entry = made.entries[distance >> made.shift].astype(np.int64)
    is_after = (distance & ((1 << made.shift) - 1)) >= entry >> 16
    found = np.where(is_after, entry >> 8 & 0xFF, entry & 0xFF).astype(np.uint8).view(np.int8)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("below", range(-2, 3))
@pytest.mark.parametrize("above", range(-2, 3))
def test_lines_that_are_passed_over_change_no_byte(below: int, above: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tables with and without a look at the ends; also where the ends of the table are the wrong way round."""
    passed: list[bool] = []
    is_settled = table._is_settled

    def note(*of: object) -> bool:
        passed.append(is_settled(*of))  # type: ignore[arg-type]
        return passed[-1]

    for number in range(12):
        span, ramp = 512 << number % 3, np.linspace(-20_000, 20_000, 2 * ENTRIES - 1).astype(np.int64)
        found = lut.Config(
            entries=curves(number % 3) if number % 3 else np.stack([ramp[:ENTRIES], ramp[ENTRIES - 1 :]]),
            le_start=-span if number % 4 else 7, lo_start=0, lo_end=span if number % 4 else 5,
            le_select=number % 3, lo_select=number % 3, below=lut.Slope(2 * below, 1), above=lut.Slope(3 * above, 1),
        )  # fmt: skip
        out = task_out_cvt.Config(
            scale=(90, 5, 1)[number // 4], shift=9, offset=number - 6, precision=Precision.INT8, minus_exponent=0,
            rounding=numerics.Rounding.EVEN, add_first=False,
        )  # fmt: skip
        config = task_ew.Config(table=found, operation=None, clamp=None)
        tables: list[object] = []
        for settles in (note, lambda *_: False):
            monkeypatch.setattr(table, "_KEPT", table._Kept(0))
            monkeypatch.setattr(table, "_is_settled", settles)
            try:
                made = table.build(config, out, -12_000, 15_000, table.Cache())
                tables.append((made.entries.tobytes(), *made[1:]))
            except table.TooLongError:
                tables.append(())
            monkeypatch.undo()
        assert tables[0] == tables[1]
    assert any(passed) is (below >= 0 and above >= 0)
    assert not all(passed)
