"""The emulated kernel answers what Linux 7.2.13 answered on a virtual board, with each driver, case by case."""

from __future__ import annotations

from pathlib import Path

import pytest

from openrknn.board.conformance import CASES, KNOWN, Answers, emulated_answers

RECORDED = {
    driver: dict(
        line.split(": ", 1)
        for line in Path(__file__).with_name(f"{driver}_linux_7.2.13.txt").read_text(encoding="utf-8").splitlines()
    )
    for driver in CASES
}
"""Driver -> name of a case -> the kernel's answers. Made of `real_answers`; a new case has to be recorded on a virtual
board."""
KINDS = [(driver, kind) for driver in CASES for kind in sorted({name.partition("-")[0] for name in RECORDED[driver]})]


@pytest.fixture(scope="module")
def answers() -> dict[str, Answers]:
    return {driver: emulated_answers(driver) for driver in CASES}


@pytest.mark.parametrize("driver", list(CASES))
def test_every_case_was_recorded(driver: str) -> None:
    names = [case.name for case in CASES[driver]()]
    assert names == list(RECORDED[driver])
    assert len(names) >= 300


@pytest.mark.parametrize(("driver", "kind"), KINDS)
def test_the_answers_are_the_real_kernels(answers: dict[str, Answers], driver: str, kind: str) -> None:
    recorded = RECORDED[driver]
    cases = [name for name in recorded if name.partition("-")[0] == kind and name not in KNOWN[driver]]
    assert {name: ", ".join(answers[driver][name]) for name in cases} == {name: recorded[name] for name in cases}
