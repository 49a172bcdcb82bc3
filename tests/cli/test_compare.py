"""`openrknn compare`: a model beside its source, layer by layer."""

import html
import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openrknn
from openrknn.analysis.accuracy.metrics import compare
from tests.cli.run import messages, run
from tests.container.places import golden, need_corpus

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("onnx") is None, reason="the extra 'onnx' (package onnx) is not installed"
)
RESIDUAL = golden("residual_rk3588_i8")
SOURCE = RESIDUAL.with_name("residual.onnx")
INPUT = RESIDUAL.with_suffix(".npz")


def report_of(capsys: Capture, *words: object, code: int = 0) -> dict[str, Any]:
    result = run(capsys, "compare", *words, "--json")
    assert (result.code, result.err) == (code, "")
    report: dict[str, Any] = json.loads(result.out)
    return report


def source(name: str) -> Path:
    return golden(name).with_name(name.partition("_rk3588")[0] + ".onnx")


def test_a_free_run_adds_errors_up(capsys: Capture) -> None:
    report = report_of(capsys, RESIDUAL, SOURCE, "-i", INPUT)
    layers = report["free"]
    assert report["isolated"] == []
    assert report["first_drift"] is None
    assert [layer["tensor"] for layer in layers] == [
        "image", "relu1", "relu3", "add5", "maxpool6", "conv7", "conv8", "features"
    ]  # fmt: skip
    assert all(layer["cosine"] > 0.999 for layer in layers)
    assert layers[-1]["snr_db"] < layers[0]["snr_db"]
    # The outputs are the ones of an ordinary run.
    with openrknn.Session(RESIDUAL) as session:
        image = np.load(INPUT)["x0"]
        ours = next(iter(session.run([image]).values()))
    assert layers[-1]["max_error"] < 0.2 * np.abs(ours).max()


def test_alone_and_with_its_own_weights_every_operator_is_right(capsys: Capture) -> None:
    """What is left is rounding: at most one step, and that rarely."""
    for name in ("residual", "image", "two_outputs", "silu", "cpu_sin", "deconv", "two_inputs"):
        path = golden(f"{name}_rk3588_i8")
        words = (path, source(path.stem), "-i", path.with_suffix(".npz"), "--isolate", "--reference", "quantized")
        report = report_of(capsys, *words)
        assert report["isolated"], name
        for layer in report["isolated"]:
            assert layer["within_one"] == 1.0, (name, layer)
            assert layer["equal"] >= 0.99, (name, layer)


def test_half_precision(capsys: Capture) -> None:
    for name in ("conv_rk3588_fp", "silu_rk3588_fp", "layer_norm_rk3588_fp"):
        report = report_of(capsys, golden(name), source(name), "-i", golden(name).with_suffix(".npz"))
        (last,) = [layer for layer in report["free"] if layer["tensor"] in report["outputs"]]
        assert last["cosine"] > 0.9999, name
        assert last["equal"] is None
        assert last["overflowed"] == 0


def test_a_damaged_operator_is_named(tmp_path: Path, capsys: Capture) -> None:
    """The weights of one convolution in the middle are scrambled: alone, only its own result is wrong."""
    model = openrknn.load(RESIDUAL)
    operator = next(entry for entry in model.operators if entry.outputs[0].name == "relu3")
    weights = operator.inputs[1]
    assert weights.data is not None
    data = bytearray(RESIDUAL.read_bytes())
    at = data.index(bytes(weights.data))
    data[at : at + len(weights.data)] = bytes(reversed(bytes(weights.data)))
    path = tmp_path / "damaged.rknn"
    path.write_bytes(data)
    report = report_of(capsys, path, SOURCE, "-i", INPUT, "--isolate", code=0)
    wrong = [layer["tensor"] for layer in report["isolated"] if layer["cosine"] < 0.99]
    assert wrong == ["relu3"]
    assert report["first_drift"] == "relu3"
    report = report_of(capsys, path, SOURCE, "-i", INPUT, code=1)
    assert report["first_drift"] == "relu3"
    text = run(capsys, "compare", path, SOURCE, "-i", INPUT).out
    assert f"The first operator that drifts: #{operator.index} ConvRelu (relu3)" in text


def test_clipping_and_overflow_are_counted() -> None:
    tensor = openrknn.load(RESIDUAL).operators[1].outputs[0]
    assert tensor.quantization is not None
    scale, zero_point = tensor.quantization.scale[0], tensor.quantization.zero_point[0]
    stored = np.array([127, 127, 0, -128], np.int8)
    real = ((stored.astype(np.float32) - zero_point) * scale).astype(np.float32)
    reference = np.array([real[0], real[1] + 5 * scale, real[2] + scale, real[3]], np.float32)
    found = compare(real, stored, reference, tensor)
    assert (found.clipped, found.at_low, found.at_high, found.overflowed) == (1, 1, 2, 0)
    assert (found.equal, found.within_one) == (0.75, 1.0)
    assert found.steps == (0, 0, 0, 1, 3, 0, 0, 0, 0)
    assert found.max_error == pytest.approx(5 * scale, rel=1e-5)
    broken = np.array([np.inf, np.nan, 1, 2], np.float16)
    found = compare(broken, broken, np.array([1.0, 1.0, 1.0, 2.0]), tensor)
    assert (found.overflowed, found.max_error) == (2, 0.0)
    assert found.cosine == pytest.approx(1.0)


def test_both_engines_say_the_same(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (RESIDUAL, SOURCE, "-i", INPUT, "--isolate")
    first = report_of(capsys, *words)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "onnxruntime" else find(name))
    second = report_of(capsys, *words)
    assert second["engine"] == "onnx reference evaluator"
    for one, other in zip(first["isolated"], second["isolated"], strict=True):
        assert one["cosine"] == pytest.approx(other["cosine"], abs=1e-5)


def test_channels_that_the_compiler_removed(capsys: Capture) -> None:
    path = next((item for item in need_corpus() if item.name == "mbv2_rk3588_i8.rknn" and "corpus" in item.parts), None)
    assert path is not None
    report = report_of(capsys, path, path.with_name("mbv2.onnx"), "-i", path.with_suffix(".npz"))
    pruned = {layer["tensor"]: layer["pruned"] for layer in report["free"] if layer["pruned"]}
    assert pruned == {"t24": 1, "t26": 1}
    assert min(layer["cosine"] for layer in report["free"]) > 0.99


def test_a_page_without_script_and_network(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "page.html"
    result = run(capsys, "compare", RESIDUAL, SOURCE, "-i", INPUT, "--html", out)
    assert (result.code, result.out.splitlines()[0]) == (0, f"wrote {out}")
    page = out.read_text()
    assert "default-src 'none'" in html.unescape(page)
    assert "<script" not in page
    assert not re.search(r"(?:src|href)=\"(?!#)", page)
    assert page.count("<svg") >= 4
    assert page.count('class="series') == 2
    for tensor in ("relu1", "add5", "features"):
        assert tensor in page
    result = run(capsys, "compare", RESIDUAL, SOURCE, "-i", INPUT, "--html", tmp_path / "no" / "page.html")
    assert (result.code, messages(result.err)) == (2, 1)


@pytest.mark.parametrize("width", ["70", "100", "140"])
def test_text(width: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    text = run(capsys, "compare", RESIDUAL, SOURCE, "-i", INPUT).out
    assert "Free run" in text
    assert "No operator drifts below a cosine of 0.99" in text
    assert max(map(len, text.splitlines())) <= int(width)
    assert run(capsys, "compare", RESIDUAL, SOURCE, "-q").out.startswith("No operator drifts")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.onnx"], "no such file"),
        (["text.onnx"], "not an ONNX file"),
        (["conv.onnx"], "the models do not belong together"),
        (["residual.onnx", "--limit", "2"], "not between 0 and 1"),
        (["residual.onnx", "-i", "none.npy"], "no such file"),
        (["residual.onnx", "-i", "wrong.npy"], "(1, 5)"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(SOURCE, tmp_path)
    shutil.copy(source("conv_rk3588_i8"), tmp_path)
    (tmp_path / "text.onnx").write_text("this is no model")
    np.save(tmp_path / "wrong.npy", np.zeros((1, 5), np.float32))
    result = run(capsys, "compare", RESIDUAL, *words)
    assert (result.code, result.out, messages(result.err)) == (2, "", 1)
    assert message in result.err


def test_what_cannot_be_compared(capsys: Capture) -> None:
    result = run(capsys, "compare", golden("dynamic_rk3588_i8"), source("dynamic_rk3588_i8"))
    assert (result.code, messages(result.err)) == (2, 1)
