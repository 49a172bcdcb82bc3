"""docs/estimate.md and the constants are what the published figures give; the errors stay within their bars."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest

from benchmarks.estimate.facts import CHIPS, Known, known
from benchmarks.estimate.fit import predict
from openrknn.cost import BOARDS, Board
from tools.make_estimate_docs import PAGE, PICTURE, page, picture

HINT = "run: python -m tools.make_estimate_docs"
BARS = {"rk3588": 0.08, "rk3566": 0.15, "rk3562": 0.15, "rk3576": 0.15}
"""Mean error of networks that are left out of the fit."""


@functools.cache
def facts() -> Known:
    return known()


def test_the_page_and_its_picture_are_current() -> None:
    assert PAGE.read_text() == page(facts()), HINT
    assert PICTURE.read_text() == picture(facts()), HINT


@pytest.mark.parametrize("chip", CHIPS)
def test_the_constants_are_those_of_the_fit(chip: str) -> None:
    """To the digits that are written down; `python -m tools.make_estimate_docs` prints them."""
    fit, board = facts().fits[chip], BOARDS[chip]
    ratios = fit.left_out.values()
    assert board.bytes_per_second == pytest.approx(fit.board.bytes_per_second, rel=0.005)
    assert board.task_seconds == pytest.approx(fit.board.task_seconds, abs=0.01e-6)
    assert board.low == pytest.approx(1 / max(ratios), abs=0.006)
    assert board.high == pytest.approx(1 / min(ratios), abs=0.006)
    assert board.mean_error == pytest.approx(fit.mean_error, abs=0.0006)
    assert board.figures == len(ratios)


@pytest.mark.parametrize("chip", CHIPS)
def test_networks_that_are_left_out_are_predicted(chip: str) -> None:
    fit = facts().fits[chip]
    assert len(fit.left_out) >= 14
    assert fit.mean_error <= BARS[chip]


def test_there_are_more_figures_than_we_began_with() -> None:
    assert len(facts().facts) > 46
    assert len({fact.chip for fact in facts().facts}) >= 5


def test_memory_and_table_matter() -> None:
    """With twice the memory, or a table as fast as the DPU, predictions are far off: the fit is no accident."""
    found = facts()
    rows = [(found.features[fact.name, "rk3588"], fact.ms) for fact in found.facts
            if fact.chip == "rk3588" and found.fitted(fact)]  # fmt: skip
    board = BOARDS["rk3588"]

    def error(changed: Board) -> float:
        return sum(abs(predict(features, changed) / ms - 1) for features, ms in rows) / len(rows)

    assert error(replace(board, bytes_per_second=2 * board.bytes_per_second)) > 2 * error(board)
    assert error(replace(board, table_rate=8.0)) > 2 * error(board)
