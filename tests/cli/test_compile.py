"""`openrknn compile`: a file that runs, or one line that says why not and no file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import openrknn
from tests.cli.run import run
from tests.compiler.nets import Net, feeds, small_cnn

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx")
    onnx.save(small_cnn()[0], folder / "net.onnx")
    return folder / "net.onnx"


def test_int8_with_verification_and_report(source: Path, tmp_path: Path, capsys: Capture) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number, array in enumerate(feeds((1, 3, 32, 32))):
        np.save(data / f"{number}.npy", array)
    out, page = tmp_path / "net.rknn", tmp_path / "net.html"
    words = ["-o", out, "--calibrate", data, "--verify", "--report", page, "--json"]
    result = run(capsys, "compile", source, *words)
    assert result.code == 0, result.err
    facts = json.loads(result.out)
    assert facts["format"] == "int8"
    assert facts["verify"][0]["snr_db"] > 28
    assert facts["cpu_operators"] == []
    assert openrknn.load(out).outputs[0].dtype == "int8"
    assert "Against ONNX in float" in page.read_text()


def test_fp16_beside_the_model(source: Path, tmp_path: Path, capsys: Capture) -> None:
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(source.read_bytes())
    result = run(capsys, "compile", copy)
    assert result.code == 0, result.err
    assert f"wrote {tmp_path / 'copy.rknn'}" in result.out
    again = run(capsys, "compile", copy)
    assert again.code != 0
    assert "there already" in again.err


def test_what_goes_wrong_leaves_no_file(source: Path, tmp_path: Path, capsys: Capture) -> None:
    net = Net()
    odd = tmp_path / "odd.onnx"
    onnx.save(net.model({"x": (1, 16, 8, 8)}, [net.add("Det", "x")]), odd)
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    empty = tmp_path / "empty"
    empty.mkdir()
    out = tmp_path / "out.rknn"
    for words, message in (
        ([odd], "cannot be compiled: Det"),
        ([source, "--calibrate", empty], "has no calibration data"),
        ([source, "--calibrate", broken], "not a readable picture"),
        ([source, "--calibrate", tmp_path / "nowhere"], "are not there"),
        ([source, "--target", "rk3576"], "other registers"),
        ([source, "--outputs", "nothing"], "'nothing' is not computed"),
        ([source, "--shapes", "x=1,3,64,64"], "is fixed to"),
        ([source, "--shapes", "x"], "--shapes takes"),
        ([tmp_path / "none.onnx"], "cannot be read"),
    ):
        result = run(capsys, "compile", *words, "-o", out)
        assert result.code != 0
        assert message in result.err
        assert result.err.count("\n") == 1
        assert not out.exists()
