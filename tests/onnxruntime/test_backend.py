"""ONNX's interface of backends."""

import numpy as np
import onnx
import pytest
from onnx import helper

from openrknn.onnxruntime import backend

QUIET = {"prefer": "cpu", "cache": "off"}


def model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Sub", ["a", "b"], ["c"])],
        "g",
        [helper.make_tensor_value_info(name, 1, [2]) for name in "ab"],
        [helper.make_tensor_value_info("c", 1, [2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_models_run_prepared_or_at_once() -> None:
    a, b = np.array([1, 2], np.float32), np.array([3, 5], np.float32)
    ready = backend.prepare(model(), "CPU", **QUIET)
    assert backend.prepare(ready) is ready
    for got in (ready.run([a, b]), ready.run({"b": b, "a": a}), backend.run_model(model(), [a, b], **QUIET)):
        np.testing.assert_array_equal(got[0], a - b)
    single = backend.OpenrknnBackend.run_node(helper.make_node("Neg", ["x"], ["y"]), [a], **QUIET)
    np.testing.assert_array_equal(single[0], -a)


def test_devices() -> None:
    assert backend.supports_device("CPU")
    assert backend.supports_device("NPU:0")
    assert not backend.supports_device("CUDA")
    with pytest.raises(RuntimeError, match="device 'CUDA' is not here"):
        backend.prepare(model(), "CUDA")
