"""The emulated kernel answers what Linux 7.2.13 answered on a virtual board (`openrknn board test`), case by case."""

from __future__ import annotations

from pathlib import Path

import pytest

from openrknn.board.conformance import KNOWN, Answers, emulated_answers
from openrknn.board.rocket_cases import rocket_cases

RECORDED = dict(
    line.split(": ", 1)
    for line in Path(__file__).with_name("rocket_linux_7.2.13.txt").read_text(encoding="utf-8").splitlines()
)
"""Name of a case -> the kernel's answers. Made of `real_answers`; a new case has to be recorded on a virtual board."""


@pytest.fixture(scope="module")
def answers() -> Answers:
    return emulated_answers()


def test_every_case_was_recorded() -> None:
    names = [case.name for case in rocket_cases()]
    assert names == list(RECORDED)
    assert len(names) >= 300


@pytest.mark.parametrize("kind", sorted({name.partition("-")[0] for name in RECORDED}))
def test_the_answers_are_the_real_kernels(answers: Answers, kind: str) -> None:
    cases = [name for name in RECORDED if name.partition("-")[0] == kind and name not in KNOWN]
    assert {name: ", ".join(answers[name]) for name in cases} == {name: RECORDED[name] for name in cases}
