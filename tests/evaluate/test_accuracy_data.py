"""`openrknn compile --accuracy-drop --accuracy-data`: the labels of a dataset decide what a model loses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.run import run
from tests.evaluate.test_evaluate import colours, saved


def colour_net(folder: Path) -> Path:
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["m"]),
        helper.make_node("Flatten", ["m"], ["f"]),
        helper.make_node("Gemm", ["f", "w", "b"], ["g"]),
        helper.make_node("Softmax", ["g"], ["y"], axis=1),
    ]
    weights = (np.eye(3) * 12).astype(np.float32)
    path = saved(folder / "colour.onnx", nodes, (1, 3), {"w": weights, "b": np.zeros(3, np.float32)})
    model = onnx.load(path)
    for key, value in {"task": "classify", "names": "{0: 'red', 1: 'green', 2: 'blue'}"}.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, path)
    return path


def test_labels_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, data = colour_net(tmp_path), colours(tmp_path / "data")
    words = ("compile", path, "-o", tmp_path / "out.rknn", "--std", "255", "--accuracy-drop", "1%", "--json")
    result = run(capsys, *words, "--accuracy-data", data, "--calibrate", data)
    assert result.code == 0, result.err
    accuracy = json.loads(result.out)["accuracy"]
    assert accuracy["against"] == "metric"
    assert accuracy["is_held"]
    assert accuracy["chosen"] == "int8"


def test_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = colour_net(tmp_path)
    result = run(capsys, "compile", path, "-o", tmp_path / "a.rknn", "--accuracy-data", tmp_path)
    assert result.code != 0
    assert "say how much may be lost" in result.err
    other = tmp_path / "net.tflite"
    other.write_bytes(b"")
    asked = ("--accuracy-data", tmp_path, "--accuracy-drop", "1%")
    result = run(capsys, "compile", other, "-o", tmp_path / "a.rknn", *asked)
    assert result.code != 0
    assert "needs an ONNX file" in result.err
