"""Options of toolkit 2.5.0 that change what is built: each does what it says (the oracle is ONNX in float)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openrknn
from rknn.api import RKNN
from tests.compat.lab import listening

onnx = pytest.importorskip("onnx", reason="the extra `compile` is not installed")

from tests.compiler.nets import Net  # noqa: E402


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two inputs, one of which is a shift; Reshapes at both ends; three convolutions."""
    monkeypatch.chdir(tmp_path)
    net = Net()
    x = net.add("Reshape", "x", net.constant([1, 16, 6, 6], np.int64))
    a = net.add("Relu", net.conv(x, 16, 16))
    b = net.add("Add", net.conv(a, 16, 16), "shift")
    c = net.conv(b, 16, 16)
    out = net.add("Reshape", c, net.constant([1, 16, 36], np.int64))
    model = net.model({"x": (1, 16, 36), "shift": (1, 16, 1, 1)}, [out])
    onnx.save(model, "net.onnx")
    rng = np.random.default_rng(3)
    lines = []
    for number in range(3):
        np.save(f"x{number}.npy", rng.normal(0, 1, (1, 16, 36)).astype(np.float32))
        np.save(f"s{number}.npy", rng.normal(0, 1, (1, 16, 1, 1)).astype(np.float32))
        lines.append(f"x{number}.npy s{number}.npy")
    (tmp_path / "both.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def names(folder: Path) -> dict[str, list[str]]:
    """Results of the operators by type."""
    found: dict[str, list[str]] = {}
    for node in onnx.load(folder / "net.onnx").graph.node:
        found.setdefault(node.op_type, []).append(node.output[0])
    return found


def by_float(folder: Path, **feed: Any) -> Any:
    from onnx.reference import ReferenceEvaluator

    results: Any = ReferenceEvaluator(str(folder / "net.onnx")).run(None, feed)
    return results[0]


def built(load: dict[str, Any] | None = None, quantise: bool = False, **options: Any) -> RKNN:
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588", **options) == 0
    assert rknn.load_onnx("net.onnx", **(load or {})) == 0
    assert rknn.build(do_quantization=quantise, dataset="both.txt" if quantise else None) == 0
    assert rknn.export_rknn("out.rknn") == 0
    return rknn


def ran(inputs: list[Any]) -> Any:
    with openrknn.Session("out.rknn", "software") as session:
        given = dict(zip([spec.name for spec in session.inputs], inputs, strict=True))
        layout: Any = {name: "nchw" for name, array in given.items() if array.ndim == 4} or None
        return next(iter(session.run(given, layout=layout).values()))


def test_an_input_with_a_value_is_none_any_more(folder: Path) -> None:
    shift = np.load("s1.npy")
    built({"input_initial_val": [None, shift]})
    assert [spec.name for spec in openrknn.load("out.rknn").inputs] == ["x"]
    x = np.load("x2.npy")
    assert np.allclose(ran([x]).reshape(-1), by_float(folder, x=x, shift=shift).reshape(-1), atol=0.05)


def test_the_front_is_cut_off(folder: Path) -> None:
    inner = names(folder)["Relu"][0]
    built({"inputs": [inner, "shift"], "input_size_list": [[1, 16, 6, 6], [1, 16, 1, 1]]})
    assert [spec.name for spec in openrknn.load("out.rknn").inputs] == ["shift", inner]
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588") == 0
    with listening(rknn.rknn_base) as heard:
        assert rknn.load_onnx("net.onnx", inputs=["nothing"], input_size_list=[[1, 2]]) == -1
    assert "'nothing' is not an input of the model; there are x, shift, and the values inside" in heard.text()


def test_reshapes_at_the_ends_are_removed(folder: Path) -> None:
    built(remove_reshape=True)
    model = openrknn.load("out.rknn")
    found = names(folder)
    assert [spec.name for spec in model.outputs] == [found["Conv"][-1]]
    assert found["Reshape"][0] in {spec.name for spec in model.inputs}
    x, shift = np.load("x0.npy"), np.load("s0.npy")
    given = {found["Reshape"][0]: x.reshape(1, 16, 6, 6), "shift": shift}
    wanted = by_float(folder, x=x, shift=shift)
    found_values = ran([given[spec.name] for spec in model.inputs])
    assert np.allclose(found_values.reshape(-1), wanted.reshape(-1), atol=0.05)


def test_custom_hybrid_makes_what_lies_between_fp16(folder: Path) -> None:
    found = names(folder)
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588") == 0
    assert rknn.load_onnx("net.onnx") == 0
    pairs = [[found["Relu"][0], found["Conv"][-1]]]
    assert rknn.hybrid_quantization_step1(dataset="both.txt", proposal=False, custom_hybrid=pairs) == 0
    listed = (folder / "net.quantization.cfg").read_text().split("quantize_parameters")[0]
    assert listed.count(": float16") >= 2
    assert rknn.hybrid_quantization_step2("net.model", "net.data", "net.quantization.cfg") == 0
    assert rknn.export_rknn("mixed.rknn") == 0
    kinds = {tensor.name: tensor.dtype.name for tensor in openrknn.load("mixed.rknn").graphs[0].tensors}
    assert kinds[found["Conv"][-1]] == "FLOAT16"
    assert "INT8" in kinds.values()


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([["nope", "x"]], "the model has no value 'nope'"),
        ([["x"]], "is a list of pairs of names"),
        ("x", "is a list of pairs of names"),
        ([["shift", "x"]], "no operator lies between 'shift' and 'x'"),
    ],
)
def test_custom_hybrid_that_cannot_be(folder: Path, pairs: Any, message: str) -> None:
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588") == 0
    assert rknn.load_onnx("net.onnx") == 0
    with listening(rknn.rknn_base) as heard:
        assert rknn.hybrid_quantization_step1(dataset="both.txt", custom_hybrid=pairs) == -1
    assert message in heard.text()


def test_op_target_holds_or_is_refused(folder: Path) -> None:
    conv = next(node.name for node in onnx.load("net.onnx").graph.node if node.op_type == "Conv")
    built(op_target={conv: "npu"})
    rknn = RKNN()
    assert rknn.config(target_platform="rk3588", op_target={"7398-rs": "cpu", conv: "cpu"}) == 0
    assert rknn.load_onnx("net.onnx") == 0
    with listening(rknn.rknn_base) as heard:
        assert rknn.build(do_quantization=False) == -1
    assert "no operator 7398-rs, so there is nothing to place" in heard.text(logging.WARNING)
    assert f"op_target: {conv} runs on the NPU here, and the compiler cannot move it to the CPU" in heard.text()


def test_unknown_options_of_export_are_told(folder: Path) -> None:
    rknn = built()
    with listening(rknn.rknn_base) as heard:
        assert rknn.export_rknn("again.rknn", simplify=True) == 0
    assert "export_rknn: simplify has no effect" in heard.text(logging.WARNING)
