"""What a newcomer does first: wrong files, narrow terminals, Ctrl-C, missing packages, the same folder twice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from openrknn.cli.commands import NAMES
from openrknn.extras import missing
from tests.cli.run import messages, run
from tests.docs.code_blocks import ROOT

Capture = pytest.CaptureFixture[str]
MODELS, IMAGES = ROOT / "examples" / "models", ROOT / "examples" / "images"
CLASSIFIER, FINDER = MODELS / "efficientnet_lite0_rk3588_i8.rknn", MODELS / "ppocrv4_det_rk3588_i8.rknn"


@pytest.mark.parametrize("command", ["run", "inspect", "bench", "lint", "profile"])
def test_an_onnx_model_is_sent_to_the_compiler(command: str, capsys: Capture) -> None:
    model = MODELS / "tiny.onnx"
    result = run(capsys, command, model)
    assert result.code == 2
    assert result.err == (
        f"openrknn: {model}: this is an ONNX model, not a .rknn; make one with `openrknn compile {model}`\n"
        "see: docs/formats.md\n"
    )


def test_a_compiled_model_is_not_compiled_again(capsys: Capture) -> None:
    result = run(capsys, "compile", CLASSIFIER)
    assert result.code == 2
    assert "this is a .rknn already" in result.err


def test_the_command_for_text_is_named(capsys: Capture) -> None:
    result = run(capsys, "pose", FINDER, IMAGES / "page.jpg")
    assert result.code == 2
    assert "try the command or task 'ocr'" in result.err


def test_labels_of_something_else_are_refused(capsys: Capture) -> None:
    lines = len((ROOT / "README.md").read_text().splitlines())
    result = run(capsys, "classify", CLASSIFIER, IMAGES / "cat.jpg", "--labels", ROOT / "README.md")
    assert (result.code, result.out) == (2, "")
    assert f"README.md: {lines} lines for 1000 classes" in result.err


def test_a_png_stays_a_png(tmp_path: Path, capsys: Capture) -> None:
    image = pytest.importorskip("PIL.Image", reason="the extra 'images' (Pillow) is not installed")
    image.open(IMAGES / "cat.jpg").save(tmp_path / "cat.png")
    result = run(capsys, "classify", CLASSIFIER, tmp_path / "cat.png", "--save", tmp_path / "out", "--json")
    assert json.loads(result.out)["pictures"][0]["file"] == "cat.png"
    assert (tmp_path / "out" / "cat.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_never_overwrites_what_it_did_not_write(tmp_path: Path, capsys: Capture) -> None:
    mine = tmp_path / "index.html"
    mine.write_text("my page")
    result = run(capsys, "demo", "--save", tmp_path)
    assert result.code == 2
    assert result.err == f"openrknn: {tmp_path}: not empty; choose another directory\n"
    assert mine.read_text() == "my page"


def test_the_demo_can_run_twice(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    assert run(capsys, "demo", "--save", out, "--quiet").code == 0
    (out / "mine.txt").write_text("kept")
    (out / "index.html").write_text("old")
    assert run(capsys, "demo", "--save", out, "--quiet").code == 0
    assert (out / "mine.txt").read_text() == "kept"
    assert "Egyptian cat" in (out / "index.html").read_text()


# -- packages that are missing -----------------------------------------------------------------------------------------


def test_a_missing_package_goes_by_the_name_that_pip_knows(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    result = run(capsys, "device-plugin")
    assert result.code == 2
    assert "protobuf is not installed" in result.err
    assert f"{sys.executable} -m pip install 'openrknn[kubernetes]'" in result.err
    assert missing(ModuleNotFoundError("no", name="google"), "kubernetes").startswith("protobuf is not installed")


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------

_INTERRUPTED = """
import builtins, os, signal, sys
true_import = builtins.__import__
def importing(name, *rest, **more):
    if name == {name!r} and not done:
        done.append(name)
        if {wrapped}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("as NumPy says it") from None
        os.kill(os.getpid(), signal.SIGINT)
    return true_import(name, *rest, **more)
done = []
builtins.__import__ = importing
from openrknn.cli.__main__ import start
sys.argv = ["openrknn", "inspect", {model!r}]
raise SystemExit(start())
"""


@pytest.mark.parametrize(("name", "wrapped"), [("argparse", False), ("numpy", False), ("numpy", True)])
def test_control_c_during_an_import_is_silent(name: str, wrapped: bool) -> None:
    text = _INTERRUPTED.format(name=name, wrapped=wrapped, model=str(CLASSIFIER))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# -- terminals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("command", ["", *NAMES])
def test_the_help_fits_the_terminal(
    command: str, columns: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but examples that are one long command; and it uses the room that there is, up to 120 columns."""
    monkeypatch.setenv("COLUMNS", str(columns))
    text = run(capsys, *([command] if command else []), "--help").out
    body = [line for line in text.partition("\nexamples:")[0].splitlines() if "{" not in line]
    assert max(map(len, body)) <= columns
    if not command:
        assert max(map(len, body)) > min(columns, 120) - 30


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_profile_has_one_line_per_operator(
    columns: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long names lose their start, and are not split over many lines."""
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = run(capsys, "profile", CLASSIFIER, "--runs", "1").out.partition("\n\n")[0].splitlines()
    operators = len(json.loads(run(capsys, "profile", CLASSIFIER, "--runs", "1", "--json").out)["operators"])
    assert len(lines) == operators + 2
    assert max(map(len, lines)) <= columns
    assert sum(line.endswith("/Conv") for line in lines) > 30


def test_a_class_keeps_its_name_on_a_narrow_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (60, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        for words in (("run", CLASSIFIER, "-i", IMAGES / "cat.jpg"), ("classify", CLASSIFIER, IMAGES / "cat.jpg")):
            result = run(capsys, *words)
            assert "Egyptian cat" in result.out
            assert max(map(len, result.out.splitlines())) <= columns


# -- compare -----------------------------------------------------------------------------------------------------------

GATE = (MODELS / "picture_gate_rk3562_fp.rknn", MODELS / "picture_gate.onnx")


def test_compare_without_onnx_is_one_line(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    result = run(capsys, "compare", *GATE)
    assert (result.code, result.out, messages(result.err)) == (2, "", 1)
    assert "pip install 'openrknn[onnx]'" in result.err


def test_the_page_of_compare_says_why_the_exit_code_is_1(tmp_path: Path, capsys: Capture) -> None:
    pytest.importorskip("onnx", reason="the extra 'onnx' (package onnx) is not installed")
    result = run(capsys, "compare", *GATE, "--html", tmp_path / "page.html")
    assert result.code == 1
    assert "The first operator that drifts" in result.out
    assert "layout-mismatch" in result.out


def test_a_time_keeps_its_unit_on_a_narrow_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = run(capsys, "bench", MODELS / "tones_rk3588_fp.rknn", "--runs", "2", "--seconds", "0.1").out
    latency = text.partition("\nLatency\n")[2].partition("\n\n")[0].splitlines()
    assert len(latency) == 8
    assert all(line.endswith((" us", " ms", " s")) for line in latency)


def test_types_of_operators_are_not_split_on_a_narrow_terminal(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = run(capsys, "inspect", CLASSIFIER).out
    assert "  ConvClip   npu" in text
    assert "  Reshape    cpu" in text
