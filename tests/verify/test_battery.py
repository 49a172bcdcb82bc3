"""The battery: its tasks do what their questions say, and a device that computes otherwise is found out."""

from __future__ import annotations

import json
from fractions import Fraction
from math import floor
from pathlib import Path

import numpy as np
import pytest

from openrknn.chips import CHIPS
from openrknn.cli.main import main
from openrknn.device.software import SoftwareDevice
from openrknn.verify import battery, cases
from openrknn.verify.cases import CASES, Case

CASE = {case.name: case for case in CASES}


def answer(name: str) -> np.ndarray:
    with SoftwareDevice(CHIPS["rk3588"]) as device:
        return battery._run(CASE[name], device)


def ramp(name: str) -> list[int]:
    values: list[int] = CASE[name].source.view(np.int8).tolist()
    return values


def saturated(value: int) -> int:
    return max(-128, min(127, value))


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("copy", lambda x: x),
        ("bs_ties", lambda x: round(Fraction(x, 2))),
        ("bs_ties_2", lambda x: round(Fraction(3 * x, 4))),
        ("bs_negative_shift", lambda x: saturated(4 * x) if x >= 0 else round(Fraction(4 * x, 16))),
        ("bs_relu", lambda x: max(x, 0)),
        ("bn_ties", lambda x: round(Fraction(3 * x + 5, 8))),
        ("out_ties", lambda x: round(Fraction(x, 2) + 3)),
        ("out_ties_bit", lambda x: int(abs(Fraction(x, 4)) + Fraction(1, 2)) * (1 if x > 0 else -1)),
        ("out_add_first", lambda x: saturated(round(Fraction(5 * (x + 1), 4)))),
        ("out_saturation", lambda x: saturated(3 * x)),
    ],
)
def test_element_wise_cases_by_formula(name: str, rule: object) -> None:
    assert callable(rule)
    assert answer(name).tolist() == [rule(value) for value in ramp(name)]


@pytest.mark.parametrize(("name", "factor"), [("lookup", 97), ("lookup_beyond", 201)])
def test_lookups_by_formula(name: str, factor: int) -> None:
    """LE from -16384 to 0 and LO from 0 to 16384, entries 32 apart; beyond them straight lines; rounded down."""
    low, high = ([int(entry) for entry in table] for table in cases.TABLES)
    below, above = cases.BEYOND_BELOW, cases.BEYOND_ABOVE

    def rule(x: int) -> int:
        if x < -16384:
            return floor(low[0] + Fraction((x + 16384) * below[0], 1 << below[1]))
        if x > 16384:
            return floor(high[512] + Fraction((x - 16384) * above[0], 1 << above[1]))
        index, rest = divmod(x + 16384 if x < 0 else x, 32)
        table = low if x < 0 else high
        return floor(table[index] + Fraction((table[index + 1] - table[index]) * rest, 32)) if rest else table[index]

    wanted = [saturated(rule(factor * value)) for value in ramp(name)]
    assert answer(name).tolist() == wanted
    assert len(set(wanted)) > 90


def test_registers_that_stay_by_formula() -> None:
    assert answer("kept_registers").tolist() == [saturated(3 * value + 5) for value in ramp("kept_registers")]


@pytest.mark.parametrize(("name", "factor"), [("half_copy", 0x3C00), ("half_product", 0x3C01), ("half_third", 0x3555)])
def test_products_of_halves_by_formula(name: str, factor: int) -> None:
    """Computed wide, rounded once. What infinities and NaN become is the question, not the answer."""
    source = CASE[name].source.view("<f2")
    finite = np.isfinite(source)
    wide = source[finite].astype(np.float64) * np.array([factor], "<u2").view("<f2").astype(np.float64)
    with np.errstate(over="ignore"):
        wanted = wide.astype(np.float16)
    found = answer(name).view(np.uint8).view("<f2")[finite]
    usual = np.isfinite(wanted)
    assert np.array_equal(found[usual], wanted[usual])
    assert finite.sum() > 400


def test_sums_of_halves_by_formula() -> None:
    case = CASE["half_sums"]
    source = case.source.view("<f2").reshape(64, 8).astype(np.float64)
    weights = case.weights.view("<f2").reshape(16, 8).astype(np.float64)
    found = answer("half_sums").view(np.uint8).view("<f2").reshape(2, 64, 8).transpose(1, 0, 2).reshape(64, 16)
    wanted = source @ weights.T
    assert np.allclose(found.astype(np.float64), wanted, rtol=2e-3, atol=1e-3 * np.abs(wanted).max())


def test_channels_beyond_the_original_ones() -> None:
    found = answer("beyond_orig_channel").view(np.uint8).reshape(64, 16)
    assert np.array_equal(found[:, :5], CASE["beyond_orig_channel"].source.reshape(64, 16)[:, :5])


def test_average_by_formula() -> None:
    case = CASE["average_ties"]
    data = case.source.view(np.int8).reshape(2, 64, 16).astype(int)
    sums = data.reshape(2, 32, 2, 16).sum(axis=(0, 2))
    assert answer("average_ties").reshape(32, 16).tolist() == [
        [round(Fraction(int(value), 4)) for value in row] for row in sums
    ]


def test_the_software_npu_agrees_with_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "npu.json"
    assert main(["verify", "--report", str(report)]) == 0
    assert "none differ" in capsys.readouterr().out
    assert len(json.loads(report.read_text())["cases"]) == len(CASES)


def test_models_of_any_chip_in_place_of_the_battery(capsys: pytest.CaptureFixture[str]) -> None:
    goldens = Path(__file__).parents[1] / "goldens"
    models = [str(goldens / f"residual_{chip}_i8.rknn") for chip in ("rk3566", "rv1106b")]
    assert main(["verify", "--json", *models]) == 0
    cases = json.loads(capsys.readouterr().out)["cases"]
    assert [(case["question"], case["outputs"], case["differ"]) for case in cases] == [
        ("a model for RK3566", 512, 0), ("a model for RV1106B", 512, 0),
    ]  # fmt: skip


def test_a_device_that_rounds_otherwise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = battery._run

    def crooked(case: Case, device: object) -> np.ndarray:
        result = real(case, device)  # type: ignore[arg-type]
        return result + (case.name == "bs_ties" and device is wrong).__int__()

    monkeypatch.setattr(battery, "_run", crooked)
    with SoftwareDevice(CHIPS["rk3588"]) as wrong:
        verdicts = {verdict.name: verdict for verdict in battery.run_battery(wrong)}
    assert not verdicts["bs_ties"].is_equal
    assert verdicts["bs_ties"].differ == verdicts["bs_ties"].outputs
    assert verdicts["copy"].is_equal


@pytest.mark.parametrize("model", [[], [str(Path(__file__).parents[1] / "goldens" / "conv_rk3588_i8.rknn")]])
def test_a_device_that_does_not_exist(model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """FINDINGS 26: a traceback."""
    assert main(["verify", *model, "--device", "foo"]) == 2
    assert "no device is called 'foo'; there are: auto, software" in capsys.readouterr().err


def test_a_picture_in_one_bank_by_formula() -> None:
    """Small whole numbers, so that nothing is rounded; [surface, pixel, channel]."""
    case, (rows, columns) = CASE["picture_room"], cases.PICTURE
    picture = case.source.view("<f2").reshape(rows * columns, 3).astype(float)
    weights = case.weights.view("<f2").reshape(32, 8)[:, :3].astype(float)
    found = answer("picture_room").view("<f2").reshape(4, rows * columns, 8).transpose(1, 0, 2).reshape(-1, 32)
    assert np.array_equal(found, picture @ weights.T)


def test_two_lines_are_read_as_one_of_the_same_pixels() -> None:
    """They lie behind one another, whatever DMA_CON1 says of the next four."""
    assert np.array_equal(answer("lines_of_four"), answer("accumulator"))
    assert np.unique(answer("lines_of_four")).size > 100
