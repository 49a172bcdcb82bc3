"""`openrknn check` as people and pipelines meet it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import openrknn
from openrknn.container.save import save
from tests.check.broken import flipped
from tests.cli.run import run
from tests.container.places import ROOT, golden

Capture = pytest.CaptureFixture[str]
CONV = golden("conv_rk3588_i8")
RESIDUAL = golden("residual_rk3588_i8")


def network() -> bytes:
    chance = np.random.default_rng(0)

    def constant(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(chance.normal(0, 0.3, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("Conv", ["b", "w1", "b1"], ["y"], name="second", pads=[1, 1, 1, 1]),
    ]
    constants = [constant("w0", 16, 3, 3, 3), constant("b0", 16), constant("w1", 8, 16, 3, 3), constant("b1", 8)]
    source = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])
    target = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 8, 8])
    graph = helper.make_graph(nodes, "net", [source], [target], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    text: bytes = model.SerializeToString()
    return text


@pytest.fixture
def recorded(capsys: Capture, tmp_path: Path) -> Path:
    assert run(capsys, "check", CONV, "--record", tmp_path / "golden").code == 0
    return tmp_path / "golden"


def test_a_good_model(capsys: Capture, recorded: Path) -> None:
    result = run(capsys, "check", CONV, "--golden", recorded)
    assert result.code == 0
    assert "12 checks passed" in result.out
    assert "0.00718 ms on rk3588 (0.00632 to 0.00797)" in result.out


def test_ruined_quantisation_is_found_with_the_operator(capsys: Capture, tmp_path: Path) -> None:
    """The same network, calibrated with data that are 20 times too small. The witness is ONNX Runtime (--reference)."""
    chance = np.random.default_rng(1)
    data = [{"x": chance.uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)} for _ in range(2)]
    small = [{"x": entry["x"] * np.float32(0.05)} for entry in data]
    (tmp_path / "net.onnx").write_bytes(network())
    for name, calibration in (("good", data), ("bad", small)):
        save(openrknn.compile(network(), "rk3588", calibration=calibration), tmp_path / f"{name}.rknn")
    np.save(tmp_path / "x.npy", data[0]["x"])
    words = ("--record", tmp_path / "golden", "--input", tmp_path / "x.npy", "--reference", tmp_path / "net.onnx")
    assert run(capsys, "check", tmp_path / "good.rknn", *words).code == 0
    toml = (tmp_path / "golden" / "golden.toml").read_text()
    assert "snr_db = " in toml
    assert "cosine = " in toml
    assert run(capsys, "check", tmp_path / "good.rknn", "--golden", tmp_path / "golden").code == 0
    result = run(capsys, "check", tmp_path / "bad.rknn", "--golden", tmp_path / "golden", "--json")
    assert result.code == 1
    checks = {entry["name"]: entry for entry in json.loads(result.out)["models"][0]["checks"]}
    assert checks["outputs of x"]["status"] == "failed"
    named = [finding["operator"]["name"] for finding in checks["quantization"]["findings"] if finding["operator"]]
    assert named == ["ConvRelu:first", "Conv:second"]
    codes = {finding["code"]: finding for finding in checks["outputs of x"]["findings"]}
    assert "the input 'x' differs and saturates" in codes["saturated"]["text"]
    assert codes["first-difference"]["operator"]["name"] == "ConvRelu:first"


def test_operators_that_moved_to_the_cpu_are_named(capsys: Capture, tmp_path: Path) -> None:
    """Our compiler computes Sin on the NPU, the vendor's file of the same network on the CPU."""
    source, vendors = ROOT / "tests" / "goldens" / "cpu_sin.onnx", golden("cpu_sin_rk3588_i8")
    spec = openrknn.load(vendors).inputs[0]
    shape = (spec.shape[0], spec.shape[3], *spec.shape[1:3]) if spec.layout == "nhwc" else spec.shape
    data = np.random.default_rng(2).uniform(-1, 1, shape).astype(np.float32)
    save(openrknn.compile(source, "rk3588", calibration=[data]), tmp_path / "ours.rknn")
    assert run(capsys, "check", tmp_path / "ours.rknn", "--record", tmp_path / "golden").code == 0
    result = run(capsys, "check", vendors, "--golden", tmp_path / "golden")
    assert result.code == 1
    text = " ".join(result.out.split())
    assert "FAIL budget cpu_operators 1 operator on the CPU, 0 allowed" in text
    assert "cpu-operators-grew #2 Sin 'Sin:sin1' runs on the CPU; 0 operators may, and it did not when" in text
    assert "operator-moved #2 Sin 'Sin:sin1' runs on the CPU; it ran on the NPU" in text


def test_reports(capsys: Capture, recorded: Path, tmp_path: Path) -> None:
    bad = flipped(CONV, tmp_path / "bad.rknn", "const0", at=2, bit=7)
    words = ("--junit", tmp_path / "a.xml", "--sarif", tmp_path / "a.sarif", "--github")
    result = run(capsys, "check", bad, "--golden", recorded, *words)
    assert result.code == 1
    suite = ElementTree.parse(tmp_path / "a.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("12", "2", "0")
    failures = {case.get("name"): case.find("failure") for case in suite.iter("testcase")}
    weights = failures["weights"]
    assert weights is not None
    assert weights.get("type") == "weights-changed"
    assert "#1 Conv 'Conv:conv0': weights 'const0' changed" in str(weights.get("message"))
    log = json.loads((tmp_path / "a.sarif").read_text())
    first = log["runs"][0]["results"][0]
    assert log["version"] == "2.1.0"
    assert (first["ruleId"], first["level"]) == ("weights-changed", "error")
    assert first["locations"][0]["logicalLocations"][0]["name"] == "Conv:conv0"
    rules = [rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]]
    assert all(rules[entry["ruleIndex"]] == entry["ruleId"] for entry in log["runs"][0]["results"])
    lines = [line for line in result.out.splitlines() if line.startswith("::")]
    assert lines[0].startswith(f"::error file={bad},title=openrknn%3A weights-changed::")


def test_update_shows_the_difference_and_writes_it(capsys: Capture, recorded: Path, tmp_path: Path) -> None:
    other = flipped(CONV, tmp_path / "other.rknn", "const0", at=2, bit=7)
    result = run(capsys, "check", other, "--golden", recorded, "--update")
    assert result.code == 0
    assert "weights-changed" in result.out
    assert f"wrote {recorded / 'outputs' / 'random.npz'}" in result.out
    assert run(capsys, "check", other, "--golden", recorded).code == 0
    assert run(capsys, "check", CONV, "--golden", recorded).code == 1
    assert "nothing to write" in run(capsys, "check", other, "--golden", recorded, "--update").out


def test_several_models_find_their_folders(capsys: Capture, tmp_path: Path) -> None:
    models, goldens = tmp_path / "models", tmp_path / "goldens"
    models.mkdir()
    for source in (CONV, RESIDUAL):
        (models / source.name).write_bytes(source.read_bytes())
        assert run(capsys, "check", source, "--record", goldens / source.stem).code == 0
    result = run(capsys, "check", models, "--golden", goldens)
    assert result.code == 0
    assert "2 models: all as expected" in result.out
    (models / RESIDUAL.name).unlink()
    result = run(capsys, "check", models, "--golden", goldens)
    assert result.code == 2, "a model that is not built any more does not pass"
    assert "no model belongs to it" in " ".join(result.out.split())


def test_answers_of_a_classifier(capsys: Capture, tmp_path: Path) -> None:
    """The witness of the class is a person who looks at the picture."""
    model, picture = ROOT / "examples/models/efficientnet_lite0_rk3588_i8.rknn", ROOT / "examples/images/coffee.jpg"
    words = ("--record", tmp_path / "golden", "--input", picture, "--expect", "answers")
    assert run(capsys, "check", model, *words).code == 0
    file = tmp_path / "golden" / "answers" / "coffee.json"
    assert json.loads(file.read_text())["classes"] == ["espresso"]
    file.write_text('{"classes": ["beer glass"]}')
    result = run(capsys, "check", model, "--golden", tmp_path / "golden", "--only", "coffee")
    assert result.code == 1
    assert "'beer glass' is not number 1; found: espresso 0.9" in " ".join(result.out.split())


def test_what_cannot_be_checked(capsys: Capture, recorded: Path, tmp_path: Path) -> None:
    """Each is exit code 2 with a line that says what to do."""

    def told(*words: object) -> str:
        result = run(capsys, "check", *words)
        assert result.code == 2, words
        return " ".join((result.out + result.err).split())

    nothing = tmp_path / "nothing.rknn"
    assert "no such file" in told(nothing, "--golden", recorded)
    nothing.write_bytes(b"nothing at all")
    assert "not a .rknn file" in told(nothing, "--golden", recorded)
    assert f"openrknn check {CONV} --record" in told(CONV, "--golden", tmp_path / "none")
    assert "conv_rk3588_i8.golden" in told(CONV)
    assert "there is no case 'rando'; did you mean 'random'?" in told(CONV, "--golden", recorded, "--only", "rando")
    assert "no-such" in told(CONV, "--golden", recorded, "--device", "no-such")
    assert "--input belongs to --record" in told(CONV, "--golden", recorded, "--input", "x.npy")
    assert "has a golden.toml already" in told(CONV, "--record", recorded)
    np.savez(recorded / "inputs" / "random.npz", x=np.zeros((1, 3, 5, 5), np.float32))
    assert "case 'random'" in told(CONV, "--golden", recorded)
    assert "built for rk3562" in told(golden("conv_rk3562_i8"), "--golden", recorded)
