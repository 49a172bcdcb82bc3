"""SSDLite out of TensorFlow.js. Witnesses: a twin by TensorFlow's rules, and damaged files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from openrknn.models.errors import GettingError
from openrknn.models.ssd import INPUT, to_onnx
from openrknn.models.tfjs import read_graph
from tests.models.small_graph import SmallGraph


def test_the_network_computes_what_tensorflow_would(tmp_path: Path) -> None:
    graph = SmallGraph()
    model = to_onnx(read_graph(graph.write(tmp_path)))
    picture = np.random.default_rng(2).uniform(-1, 1, (300, 300, 3))
    outputs = ReferenceEvaluator(model).run(None, {INPUT: picture.transpose(2, 0, 1)[None].astype(np.float32)})
    wanted = graph.compute(picture)
    names = [output.name for output in model.graph.output]
    assert names == [f"{kind}_{grid}" for grid in range(6) for kind in ("place", "score")]
    for name, found in zip(names, outputs, strict=True):
        head = "BoxEncodingPredictor" if name.startswith("place") else "ClassPredictor"
        expected = wanted[f"BoxPredictor_{name[-1]}/{head}/BiasAdd"].transpose(2, 0, 1)[None]
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    # Nothing but convolutions, sums and limits: all of it is for the NPU.
    assert {node.op_type for node in model.graph.node} == {"Conv", "Add", "Clip"}


def test_a_product_of_a_tensor_that_others_use_is_refused(tmp_path: Path) -> None:
    graph = SmallGraph()
    graph._node("spy", "Relu6", "grid0/conv")
    with pytest.raises(GettingError, match="is used elsewhere too"):
        to_onnx(read_graph(graph.write(tmp_path)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda stored: stored.pop("weightsManifest"), "not a graph of TensorFlow.js"),
        (lambda stored: stored["weightsManifest"][0]["weights"].pop(), "not the model it should be"),
        (lambda stored: stored["weightsManifest"][0]["weights"][0]["shape"].append(9), "end behind the last shard"),
        (lambda stored: stored["weightsManifest"][0]["weights"][0].update(quantization={}), "not read here"),
        (lambda stored: stored["weightsManifest"][0]["paths"].append("../model.json"), "not a file beside"),
        (lambda stored: stored["weightsManifest"][0]["paths"].append("missing"), "not a graph of TensorFlow.js"),
        (lambda stored: stored["modelTopology"].update(node=[]), "has no node"),
        (lambda stored: stored["modelTopology"]["node"][3].update(op="Softmax"), "does not have"),
        (lambda stored: stored["modelTopology"]["node"][3].update(attr={}), "strides"),
        (lambda stored: stored["modelTopology"]["node"][3]["input"].__setitem__(0, "stem/relu"), "circle"),
    ],
)
def test_damaged_graphs_are_named_errors(tmp_path: Path, change: object, words: str) -> None:
    path = SmallGraph().write(tmp_path)
    stored = json.loads(path.read_text())
    assert stored["modelTopology"]["node"][3]["name"] == "stem/conv"
    assert callable(change)
    change(stored)
    path.write_text(json.dumps(stored))
    with pytest.raises(GettingError, match=words):
        to_onnx(read_graph(path))
