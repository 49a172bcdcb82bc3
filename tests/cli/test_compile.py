"""`openrknn compile`: a file that runs, or one line that says why not and no file."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import openrknn
from tests.cli.run import messages, run
from tests.compiler.nets import Net, feeds, small_cnn
from tests.compiler.test_shapes import flexible

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]


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
    documented = (ROOT / "docs" / "compiler.md").read_text().partition("## What programs read")[2].partition("\n## ")[0]
    assert [key for key in facts if f"`{key}`" not in documented] == []
    assert facts["format"] == "int8"
    assert facts["verify"][0]["snr_db"] > 28
    assert facts["cpu_operators"] == []
    assert openrknn.load(out).outputs[0].dtype == "int8"
    html = page.read_text()
    assert "Compared with ONNX in float" in html
    for number in range(facts["operators"]):
        assert f'id="op{number}"' in html
        assert f'id="tasks{number}"' in html
    assert "Output dB" in html
    assert html.count('class="spot') == facts["operators"]


def test_several_shapes_with_batches_of_their_own(tmp_path: Path, capsys: Capture) -> None:
    onnx.save(flexible("n"), tmp_path / "net.onnx")
    out = tmp_path / "net.rknn"
    shapes = ["--shapes", "x=1,3,16,8", "--shapes", "x=2,3,24,16"]
    words = ["compile", tmp_path / "net.onnx", "-o", out, *shapes, "--verify", "--report", tmp_path / "net.html"]
    result = run(capsys, *words, "--json")
    assert result.code == 0, result.err
    facts = json.loads(result.out)
    assert [entry["inputs"] for entry in facts["shapes"]] == [{"x": [2, 3, 24, 16]}, {"x": [1, 3, 16, 8]}]
    assert facts["batch"] == 2
    assert len(facts["verify"]) == 4
    text = run(capsys, *words, "--force").out
    assert "shapes   1: x 1x3x16x8; " in text
    assert "batch    2 items a run" in text
    assert "t8 (x 2x3x24x16): " in text
    found = run(capsys, "inspect", out).out
    assert "2x3x24x16" in found
    assert "1x3x16x8" in found
    assert run(capsys, "compile", tmp_path / "net.onnx", "-o", out, "--force", "--batch", "3", *shapes[:2]).code == 0
    assert openrknn.load(out).batch_size == 3


def test_fp16_beside_the_model(source: Path, tmp_path: Path, capsys: Capture) -> None:
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(source.read_bytes())
    result = run(capsys, "compile", copy)
    assert result.code == 0, result.err
    assert f"wrote {tmp_path / 'copy.rknn'}" in result.out
    again = run(capsys, "compile", copy)
    assert again.code != 0
    assert "already exists" in again.err


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
        ([source, "--calibrate", tmp_path / "nowhere"], "calibration data not found"),
        ([source, "--target", "rv1106b"], "other registers"),
        ([source, "--outputs", "nothing"], "'nothing' is not computed"),
        ([source, "--shapes", "x=1,3,64,64"], "is fixed to"),
        ([source, "--shapes", "x"], "--shapes takes"),
        ([source, "--constant", "x"], "--constant takes NAME=VALUE"),
        ([source, "--constant", "x=one"], "'one' is not a number, a list"),
        ([source, "--constant", "x=1", "--constant", "x=2"], "--constant x was given twice"),
        ([source, "--constant", "y=1"], "'y', which is not an input; the model has the inputs x (float ["),
        ([tmp_path / "none.onnx"], "cannot be read"),
    ):
        result = run(capsys, "compile", *words, "-o", out)
        assert result.code != 0
        assert message in result.err
        assert messages(result.err) == 1
        assert not out.exists()


@pytest.mark.parametrize("value", ["2", "[[1,2,2]]", "2.0", "numbers.npy"])
def test_an_input_that_is_always_the_same(
    value: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("numbers.npy", np.array([[1, 2, 3]]))
    nodes = [
        onnx.helper.make_node("Cast", ["k"], ["f"], to=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("Mul", ["x", "f"], ["y"]),
    ]
    inputs = [
        onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3]),
        onnx.helper.make_tensor_value_info("k", onnx.TensorProto.INT64, [1, "n"]),
    ]
    outputs = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3])]
    graph = onnx.helper.make_graph(nodes, "net", inputs, outputs)
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), "net.onnx")
    words = ["--shapes", "k=1,3"] if not value.startswith("[") else []
    result = run(capsys, "compile", "net.onnx", "--constant", f"k={value}", *words, "--json")
    assert result.code == 0, result.err
    assert len(json.loads(result.out)["inputs"]) == 1


def test_a_model_from_standard_input(
    source: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(source.read_bytes()))
    monkeypatch.setattr("sys.stdin", stream)
    assert "say where to write" in run(capsys, "compile", "-").err
    assert run(capsys, "compile", "-", "-o", tmp_path / "a.rknn").code == 0
    assert run(capsys, "compile", source, "-o", tmp_path / "b.rknn").code == 0
    assert (tmp_path / "a.rknn").read_bytes() == (tmp_path / "b.rknn").read_bytes()


def test_the_last_word_of_calibrate_may_be_the_model(source: Path, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", feeds((1, 3, 32, 32))[0])
    result = run(capsys, "compile", "-o", tmp_path / "a.rknn", "--calibrate", tmp_path / "x.npy", source)
    assert result.code == 0, result.err
    assert result.out.count("int8") > 1


def test_places_are_looked_at_before_the_work(source: Path, tmp_path: Path, capsys: Capture) -> None:
    for words, message in (
        (["-o", tmp_path], "this is a directory; give a file name"),
        (["-o", tmp_path / "none" / "a.rknn"], "no such directory"),
        (["-o", tmp_path / "a.rknn", "--report", tmp_path], "this is a directory"),
        (["-o", tmp_path / "a.rknn", "--report", tmp_path / "a.rknn"], "would both write to it"),
    ):
        result = run(capsys, "compile", source, *words)
        assert (result.code, result.out) == (2, "")
        assert message in result.err
    assert not list(tmp_path.iterdir())
    assert "which model?" in run(capsys, "compile").err


def test_other_kinds_of_files_are_named(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "yolo.pt").write_bytes(b"PK\x03\x04" + bytes(64))
    told = run(capsys, "compile", tmp_path / "yolo.pt").err
    assert "is an old pickle, or damaged" in told
    assert "torch.export.save" in told
    (tmp_path / "llm.gguf").write_bytes(b"GGUF" + bytes(64))
    assert "is a language model for llama.cpp" in run(capsys, "compile", tmp_path / "llm.gguf").err


def test_partition_writes_one_file_that_runs(tmp_path: Path, capsys: Capture) -> None:
    from tests.partition.models import interrupted

    onnx.save(interrupted(), tmp_path / "net.onnx")
    refused = run(capsys, "compile", tmp_path / "net.onnx")
    assert refused.code == 2
    assert "Det" in refused.err
    assert "--partition" in refused.err
    result = run(capsys, "compile", tmp_path / "net.onnx", "--partition", "--prefer", "npu", "--json")
    assert result.code == 0, result.err
    facts = json.loads(result.out)
    assert [part["kind"] for part in facts["parts"]] == ["npu", "cpu", "npu"]
    assert facts["npu_share"] == 1.0
    with openrknn.Session(tmp_path / "net.rknnz", "software") as session:
        assert session.run(np.zeros((1, 8, 8, 8), np.float32))["y"].shape == (1, 8, 8, 8)
    told = run(capsys, "compile", tmp_path / "net.onnx", "--partition", "-o", tmp_path / "cpu.rknnz")
    assert "0 NPU and 1 CPU parts" in told.out
