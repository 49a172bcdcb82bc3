"""Weights, scales and operators beside those of a recorded model. The witness is the file: one bit is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from openrknn.check import Status, check, record
from openrknn.check.fingerprint import fingerprint
from openrknn.check.result import Outcome
from openrknn.check.subject import open_subject
from openrknn.container.load import load
from tests.check.broken import constants, flipped, rescaled
from tests.container.places import golden

RESIDUAL = golden("residual_rk3588_i8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    from openrknn.cli.check.making import _random

    record(RESIDUAL, tmp_path / "golden", {"random": _random(str(RESIDUAL))})
    return tmp_path / "golden"


def found(outcome: Outcome) -> dict[str, list[str]]:
    codes: dict[str, list[str]] = {}
    for finding in outcome.findings:
        codes.setdefault(finding.code, []).append(str(finding.operator))
    return codes


def test_the_recorded_model_passes(folder: Path) -> None:
    outcome = check(RESIDUAL, folder)
    assert outcome.passed
    assert not list(outcome.findings)
    assert {one.name for one in outcome.checks} >= {"operators", "weights", "quantization", "commands", "lint"}


def test_one_bit_of_a_weight_is_found_and_its_operator_named(folder: Path, tmp_path: Path) -> None:
    bad = flipped(RESIDUAL, tmp_path / "bad.rknn", "const8", at=700)
    outcome = check(bad, folder)
    weights = next(one for one in outcome.checks if one.name == "weights")
    assert weights.status is Status.FAILED
    assert found(outcome)["weights-changed"] == ["#6 Conv 'Conv:conv8'"]
    assert "'const8' changed" in weights.findings[0].text


def test_one_bit_is_found_where_outputs_stay_within_the_tolerance(folder: Path, tmp_path: Path) -> None:
    text = (folder / "golden.toml").read_text().replace("steps = 1", "steps = 255")
    (folder / "golden.toml").write_text(text)
    outcome = check(flipped(RESIDUAL, tmp_path / "bad.rknn", "const0"), folder)
    status = {one.name: one.status for one in outcome.checks}
    assert status["outputs of random"] is Status.PASSED
    assert status["weights"] is Status.FAILED
    assert found(outcome) == {"weights-changed": ["#1 ConvRelu 'Conv:conv0'"]}


@pytest.mark.parametrize(
    "name", ["residual_rk3588_i8", "residual_rv1106_i8", "residual_rk3588_i8_compressed", "image_rk3576_i8",
             "conv_rk3566_fp", "gemm_rk3588_i8"],
)  # fmt: skip
def test_every_constant_belongs_to_an_operator(name: str, tmp_path: Path) -> None:
    """A bit of any constant changes the fingerprint of at least one operator, and of nothing but its weights."""
    before = fingerprint(open_subject(golden(name)))
    for tensor in constants(load(golden(name))):
        if tensor == "fenceConv_weight_w4a16_weight":
            continue  # two bytes, which stand in the file many times
        after = fingerprint(open_subject(flipped(golden(name), tmp_path / "bad.rknn", tensor, bit=6)))
        pairs = zip(before.operators, after.operators, strict=True)
        changed = [(one, other) for one, other in pairs if one != other]
        assert changed, tensor
        for one, other in changed:
            assert tensor in one.weights
            assert (one.quantization, one.commands, one.runs_on) == (other.quantization, other.commands, other.runs_on)


def test_a_scale_that_changed_is_named_with_its_operator(folder: Path, tmp_path: Path) -> None:
    tensor = load(RESIDUAL).operators[2].outputs[0].name
    outcome = check(rescaled(RESIDUAL, tmp_path / "bad.rknn", tensor, 0.25), folder)
    assert found(outcome)["quantization-changed"] == ["#2 ConvRelu 'Conv:conv2'"]
    text = next(str(finding) for finding in outcome.findings if finding.code == "quantization-changed")
    assert "holds 0.25 of the range: what is beyond saturates" in text


def test_the_first_operator_that_differs_is_named(folder: Path, tmp_path: Path) -> None:
    """Without the hashes of weights: the results between the operators tell."""
    text = (folder / "golden.toml").read_text().replace('weights = "error"', 'weights = "off"')
    (folder / "golden.toml").write_text(text)
    bad = flipped(RESIDUAL, tmp_path / "bad.rknn", "const4", at=3, bit=7)  # before the last two convolutions
    outcome = check(bad, folder)
    cases = next(one for one in outcome.checks if one.name == "outputs of random")
    assert cases.status is Status.FAILED
    blamed = [finding for finding in cases.findings if finding.code in ("first-difference", "saturated")]
    users = [item.index for item in load(RESIDUAL).operators if any(it.name == "const4" for it in item.inputs)]
    assert [finding.operator.index for finding in blamed if finding.operator] == users[:1]


def test_warnings_do_not_fail(folder: Path, tmp_path: Path) -> None:
    text = (folder / "golden.toml").read_text()
    text = text.replace('weights = "error"', 'weights = "warning"').replace("steps = 1", "cosine = 0.5")
    (folder / "golden.toml").write_text(text)
    outcome = check(flipped(RESIDUAL, tmp_path / "bad.rknn", "const0"), folder)
    assert outcome.passed
    assert [str(finding.severity) for finding in outcome.findings] == ["warning"]


def test_another_chip_and_other_operators_are_told(folder: Path) -> None:
    text = (folder / "golden.toml").read_text().replace('chip = "rk3588"\n', "")
    (folder / "golden.toml").write_text(text)
    codes = found(check(golden("image_rk3562_i8"), folder))
    assert {"chip-changed", "operator-removed", "interface-changed"} <= codes.keys()
    assert "#4 MaxPool 'MaxPool:maxpool6'" in codes["operator-removed"]
