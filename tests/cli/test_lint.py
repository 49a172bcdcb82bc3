"""`openrknn lint`, and where else its findings are shown."""

import json
from pathlib import Path

import onnx
import pytest

from tests.cli.run import run
from tests.container.places import ROOT, golden
from tests.goldens.lint.build import ROWS

Capture = pytest.CaptureFixture[str]
FOLDER = ROOT / "tests" / "goldens" / "lint"
WRONG = FOLDER / "picture_gate_rk3562_fp.rknn"
DOUBTFUL = FOLDER / "low_scores_rk3588_i8.rknn"
SOUND = golden("conv_rk3588_i8")


def test_exit_codes(capsys: Capture, tmp_path: Path) -> None:
    bad = tmp_path / "bad.rknn"
    bad.write_bytes(b"no model")
    assert run(capsys, "lint", SOUND).code == 0
    assert run(capsys, "lint", WRONG).code == 1
    assert run(capsys, "lint", DOUBTFUL).code == 0
    assert run(capsys, "lint", DOUBTFUL, "--strict").code == 1
    assert run(capsys, "lint", DOUBTFUL, "--strict", "--ignore", "cannot-decide").code == 0
    result = run(capsys, "lint", SOUND, bad, WRONG)
    assert result.code == 2
    assert "bad.rknn: not a .rknn file" in result.err
    assert "layout-mismatch" in result.out, "a bad file does not keep the others from being checked"
    assert run(capsys, "lint").code == 2


def test_what_people_read(capsys: Capture) -> None:
    text = " ".join(run(capsys, "lint", SOUND, WRONG).out.split())
    assert "conv_rk3588_i8.rknn: nothing found" in text
    assert "1 error" in text
    assert "layout-mismatch #1 ConvMul, 'x0', task 0, RDMA_EW_BASE_ADDR" in text
    assert "why: pixels are packed, 6 bytes each" in text
    assert "do: put a 1x1 convolution" in text


def test_quiet_is_one_line_for_each(capsys: Capture) -> None:
    lines = run(capsys, "lint", WRONG, DOUBTFUL, SOUND, "--quiet").out.splitlines()
    assert [line.split(": ")[1:3] for line in lines] == [["error", "layout-mismatch"], ["warning", "cannot-decide"]]


def test_json(capsys: Capture, tmp_path: Path) -> None:
    files = json.loads(run(capsys, "lint", WRONG, tmp_path / "none.rknn", "--json").out)["files"]
    assert [sorted(entry) for entry in files] == [["file", "findings"], ["error", "file"]]
    finding = files[0]["findings"][0]
    assert sorted(finding) == ["change", "code", "severity", "what", "where", "why"]
    assert finding["where"]["operator"] == 1


def test_explain(capsys: Capture) -> None:
    result = run(capsys, "lint", "--explain", "never-written")
    assert result.code == 0
    assert "What to change" in result.out
    assert max(map(len, result.out.splitlines())) <= 100
    assert run(capsys, "lint", "--explain", "nothing-like-that").code == 2


def test_inspect_shows_them_in_short(capsys: Capture) -> None:
    result = run(capsys, "inspect", WRONG)
    assert result.code == 1
    assert "Watch out for" in result.out
    assert "reads the picture" in " ".join(result.out.split())
    report = json.loads(run(capsys, "inspect", WRONG, "--json").out)
    assert [item["code"] for item in report["findings"]] == ["layout-mismatch"]
    page = run(capsys, "inspect", SOUND)
    assert "Watch out for" not in page.out


def test_compare_names_the_operator_and_the_mistake(capsys: Capture, tmp_path: Path) -> None:
    name = "shared_maximum_rk3588_i8"
    source = tmp_path / "network.onnx"
    onnx.save(ROWS[name].network(), source)
    result = run(capsys, "compare", FOLDER / f"{name}.rknn", source, "--limit", "0.95")
    text = " ".join(result.out.split())
    assert result.code == 1
    assert "The first operator that drifts: #4 Max (y), all zeros" in text
    assert "wrong by itself: #4 Max (y), on the reference's numbers: all zeros" in text
    assert "lint: multiplier-overflow: Max: the multiplier of the first operand is 0" in text
    found = json.loads(run(capsys, "compare", FOLDER / f"{name}.rknn", source, "--limit", "0.95", "--json").out)
    assert [layer["operator"] for layer in found["culprits"]] == [4]


def test_our_own_files_are_not_called_changed(capsys: Capture, tmp_path: Path) -> None:
    """Nor are they advised options of the vendor's converter."""
    target = tmp_path / "own.rknn"
    assert run(capsys, "compile", ROOT / "examples" / "models" / "tiny.onnx", "-o", target, "--cores", "1").code == 0
    text = " ".join(run(capsys, "inspect", target).out.split())
    assert "built by openrknn" in text
    assert "changed after conversion" not in text
    assert "single_core_mode" not in text
    assert "compile with --cores 3" in text
