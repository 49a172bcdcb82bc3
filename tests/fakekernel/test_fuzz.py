"""A bounded part of tools/fuzz_kernel: hostile programs beside one that works."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools.fuzz_kernel import BOARDS, attack


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_hostile_programs_harm_nobody_and_leave_nothing(board: str) -> None:
    report = attack(board, 1500, 2, seed=3)
    assert report.is_clean, report
    assert report.messages == 1500
    assert report.refused > 300
