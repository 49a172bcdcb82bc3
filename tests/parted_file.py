"""A small model in parts for tests: convolution (NPU), a running sum and a look-up (CPU), convolution (NPU)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from openrknn.container.bundle import Bundle, write_bundle

__all__ = ["feed", "parted_bundle", "parted_bytes", "parted_onnx"]

SIZE = 8


def parted_onnx(*, is_open: bool = False) -> Any:
    """The ONNX model; `is_open`: the rows of a batch are not fixed."""
    from onnx import TensorProto, helper, numpy_helper

    chance = np.random.default_rng(3)
    rows: Any = "rows" if is_open else 1

    def weights(name: str, *shape: int) -> Any:
        return numpy_helper.from_array(chance.standard_normal(shape).astype(np.float32) / 6, name)

    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["c0"], "first", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], "relu"),
        helper.make_node("Gather", ["table", "number"], ["row"], "lookup", axis=0),
        helper.make_node("Cast", ["r0"], ["d0"], "wide", to=TensorProto.DOUBLE),
        helper.make_node("CumSum", ["d0", "axis"], ["d1"], "running"),
        helper.make_node("Cast", ["d1"], ["s0"], "narrow", to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s0", "row"], ["m0"], "scaled"),
        helper.make_node("Conv", ["m0", "w1"], ["c1"], "second", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c1"], ["scores"], "squash"),
        helper.make_node("Greater", ["scores", "half"], ["mask"], "decide"),
    ]
    graph = helper.make_graph(
        nodes, "parted",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [rows, 16, SIZE, SIZE]),
         helper.make_tensor_value_info("number", TensorProto.INT64, [1])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [rows, 16, SIZE, SIZE]),
         helper.make_tensor_value_info("mask", TensorProto.BOOL, [rows, 16, SIZE, SIZE])],
        [weights("w0", 16, 16, 3, 3), weights("w1", 16, 16, 3, 3), weights("table", 5, 1),
         numpy_helper.from_array(np.array(3, np.int64), "axis"),
         numpy_helper.from_array(np.array(0.5, np.float32), "half")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@cache
def parted_bundle(*, is_open: bool = False) -> Bundle:
    """Cut, with small parts for the NPU as well."""
    from openrknn.partition import PartitionOptions, make_bundle

    shapes = ({"image": (1, 16, SIZE, SIZE), "number": (1,)},) if is_open else ()
    return make_bundle(parted_onnx(is_open=is_open), PartitionOptions(prefer="npu", cache=False, shapes=shapes))


@cache
def parted_bytes(*, is_open: bool = False) -> bytes:
    """The file."""
    return write_bundle(parted_bundle(is_open=is_open))


def feed(seed: int = 0) -> dict[str, Any]:
    """Inputs in the model's own types."""
    chance = np.random.default_rng(seed)
    return {"image": chance.standard_normal((1, 16, SIZE, SIZE)).astype(np.float32), "number": np.array([2], np.int64)}
