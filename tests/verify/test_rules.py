"""The questions of the battery: every case tells its candidates apart, and the software NPU has the rule we say."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest

from openrknn.chips import CHIPS
from openrknn.cli.main import main
from openrknn.device.software import SoftwareDevice
from openrknn.isa import GRADES
from openrknn.verify import battery
from openrknn.verify.cases import CASES, Case
from openrknn.verify.rules import QUESTIONS, named_rule

CASE = {case.name: case for case in CASES}


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_candidate_gives_another_answer(name: str) -> None:
    answers = {rule: answer(CASE[name]) for rule, answer in QUESTIONS[name].candidates.items()}
    assert len(answers) > 1
    for (first, one), (second, other) in combinations(answers.items(), 2):
        assert np.count_nonzero(one != other) > 3, f"{first} and {second} look the same"


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_software_npu_has_the_rule_that_we_say(name: str) -> None:
    with SoftwareDevice(CHIPS["rk3588"]) as device:
        found = battery._run(CASE[name], device)
    assert named_rule(name, CASE[name], found) == QUESTIONS[name].ours


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_it_stands_on_is_said(name: str) -> None:
    question = QUESTIONS[name]
    assert question.ours in question.candidates
    assert question.grade in GRADES
    assert question.evidence


def test_a_board_with_another_rule_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    real = battery._run
    chosen = {"bn_ties": "halves up", "average_ties": "rounded down"}

    def board(case: Case, device: object) -> np.ndarray:
        if device is other and case.name in chosen:
            return QUESTIONS[case.name].candidates[chosen[case.name]](case)
        return real(case, device)  # type: ignore[arg-type]

    monkeypatch.setattr(battery, "_run", board)
    with SoftwareDevice(CHIPS["rk3588"]) as other:
        verdicts = {verdict.name: verdict for verdict in battery.run_battery(other)}
    for name, rule in chosen.items():
        assert not verdicts[name].is_equal
        assert (verdicts[name].rule, verdicts[name].ours) == (rule, "halves to even")
    assert verdicts["lookup"].rule == verdicts["lookup"].ours == "rounded down"


def test_a_rule_that_nobody_thought_of() -> None:
    nonsense = np.full(CASE["bs_ties"].target_bytes, 7, np.int8)
    assert named_rule("bs_ties", CASE["bs_ties"], nonsense).startswith("none of: halves to even")
    assert named_rule("copy", CASE["copy"], nonsense) == ""


def test_the_report_names_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--json"]) == 0
    rules = {case["name"]: case["rule"] for case in json.loads(capsys.readouterr().out)["cases"] if case["rule"]}
    assert rules == {name: question.ours for name, question in QUESTIONS.items()}
