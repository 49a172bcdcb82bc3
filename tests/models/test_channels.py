"""Models with channels last get an input with channels first, and names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from openrknn.models.channels import channels_first
from openrknn.models.errors import GettingError


def save(path: Path, shape: list[int]) -> Path:
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", [image], [result])
    onnx.save(helper.make_model(graph), path)
    return path


def test_the_image_is_turned(tmp_path: Path) -> None:
    model = channels_first(save(tmp_path / "net.onnx", [1, 4, 5, 3]), ("safe", "not"))
    onnx.checker.check_model(model)
    image = np.random.default_rng(1).normal(size=(1, 3, 4, 5)).astype(np.float32)
    (found,) = ReferenceEvaluator(model).run(None, {model.graph.input[0].name: image})
    np.testing.assert_array_equal(found, np.maximum(image, 0).transpose(0, 2, 3, 1))
    assert {entry.key: entry.value for entry in model.metadata_props}["names"] == "{0: 'safe', 1: 'not'}"


def test_other_networks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GettingError, match="not a network with one image input"):
        channels_first(save(tmp_path / "net.onnx", [1, 4]))
