"""Quantised models (QDQ): the integers that ONNX Runtime computes, but for what the DPU's multipliers round."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from openrknn.compiler import compile_model
from openrknn.compiler.errors import ModelError
from openrknn.runtime.session import Session
from tests.compiler.nets import Array

CHANNELS = 16
STEP = 0.05
ZEROS = {"uint8": (120, 128), "int8": (-7, 3), "int16": (0, 0)}


def build(act: str, kind: str, *, per_channel: bool, group: int = 1, weak: bool = False) -> onnx.ModelProto:
    """Quantise, one convolution with bias, quantise."""
    random = np.random.default_rng(0)
    outputs = CHANNELS if group > 1 else 24
    constants: list[Any] = []

    def constant(name: str, value: Any, dtype: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    source, target = ZEROS[act]
    count = outputs if per_channel else 1
    scale = random.uniform(0.002, 0.01, count).astype(np.float32)
    stored = random.integers(-127, 128, (outputs, CHANNELS // group, 3, 3))
    if weak:
        scale[3] *= 1e-4
        scale[5], stored[5] = 1.0, 0
    zero = np.zeros(count) if kind == "int8" else random.integers(110, 146, count)
    size = count if per_channel else ()
    x = [constant("sx", 0.03, np.float32), constant("zx", source, act)]
    y = [constant("sy", STEP, np.float32), constant("zy", target, act)]
    w = [constant("sw", scale.reshape(size), np.float32), constant("zw", zero.reshape(size), kind)]
    b = [constant("sb", np.float32(0.03) * np.broadcast_to(scale, outputs), np.float32),
         constant("zb", np.zeros(outputs), np.int32)]  # fmt: skip
    bias = np.rint(random.uniform(-1, 1, outputs) / (0.03 * np.broadcast_to(scale, outputs)))
    numbers = constant("wq", stored + (0 if kind == "int8" else 128), kind)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *x], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", *x], ["xd"]),
        helper.make_node("DequantizeLinear", [numbers, *w], ["wd"], axis=0),
        helper.make_node("DequantizeLinear", [constant("bq", bias, np.int32), *b], ["bd"], axis=0),
        helper.make_node("Conv", ["xd", "wd", "bd"], ["c"], kernel_shape=[3, 3], pads=[1] * 4, group=group),
        helper.make_node("QuantizeLinear", ["c", *y], ["yq"]),
        helper.make_node("DequantizeLinear", ["yq", *y], ["y"]),
    ]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size, 12, 10])
            for name, size in (("x", CHANNELS), ("y", outputs))]  # fmt: skip
    graph = helper.make_graph(nodes, "qdq", ends[:1], ends[1:], constants)
    opset = 21 if act == "int16" else 17
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def both(model: onnx.ModelProto) -> tuple[Array, Array]:
    """Stored numbers of ONNX Runtime and of the compiled model."""
    runtime = pytest.importorskip("onnxruntime", reason="it is what is compared with: pip install onnxruntime")
    x = np.random.default_rng(1).normal(0, 1, (1, CHANNELS, 12, 10)).astype(np.float32)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    with Session(compile_model(model).model, "software") as session:
        found = session.run(x, layout="nchw")["y"]
    return np.rint(reference.run(None, {"x": x})[0] / STEP), np.rint(found / STEP)


@pytest.mark.parametrize("act", ["uint8", "int8"])
@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("group", [1, CHANNELS])
def test_the_integers_are_those_of_onnx_runtime(act: str, kind: str, per_channel: bool, group: int) -> None:
    wanted, found = both(build(act, kind, per_channel=per_channel, group=group))
    assert np.abs(wanted - found).max() <= 1
    assert np.mean(wanted == found) > (0.99 if per_channel else 0.999)


@pytest.mark.parametrize("group", [1, CHANNELS])
def test_weak_and_dead_channels(group: int) -> None:
    """A scale of a ten-thousandth, and one of 1.0 for a channel of zeros, as quantizers write it."""
    wanted, found = both(build("uint8", "int8", per_channel=True, group=group, weak=True))
    assert np.abs(wanted - found).max() <= 1
    assert np.mean(wanted == found) > 0.98


def test_more_than_eight_bits_are_refused_with_advice() -> None:
    with pytest.raises(ModelError, match=r"int16.*int8 and uint8.*fp16"):
        compile_model(build("int16", "int8", per_channel=True))


@pytest.mark.parametrize("ratio", [0.3, 3.0, 40.0])
def test_a_difference_of_two_scales_that_are_far_apart(ratio: float) -> None:
    """x - y in steps of x and of y; ONNX Runtime is not needed to subtract."""
    scales = {"x": 0.02, "y": 0.02 * ratio, "z": 0.02 * max(ratio, 1.0)}
    constants = [numpy_helper.from_array(np.asarray(value, np.float32), f"s{name}") for name, value in scales.items()]
    constants.append(numpy_helper.from_array(np.asarray(3, np.int8), "zero"))
    nodes = []
    for name in ("x", "y"):
        nodes += [helper.make_node("QuantizeLinear", [name, f"s{name}", "zero"], [f"{name}q"]),
                  helper.make_node("DequantizeLinear", [f"{name}q", f"s{name}", "zero"], [f"{name}d"])]  # fmt: skip
    nodes += [helper.make_node("Sub", ["xd", "yd"], ["d"]),
              helper.make_node("QuantizeLinear", ["d", "sz", "zero"], ["dq"]),
              helper.make_node("DequantizeLinear", ["dq", "sz", "zero"], ["z"])]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 6, 5]) for name in ("x", "y", "z")]
    graph = helper.make_graph(nodes, "difference", ends[:2], ends[2:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    random = np.random.default_rng(2)
    stored = {name: random.integers(-100, 101, (1, 16, 6, 5)) for name in ("x", "y")}
    feed = {name: ((numbers - 3) * np.float32(scales[name])).astype(np.float32) for name, numbers in stored.items()}
    wanted = np.clip(np.rint((feed["x"] - feed["y"]) / scales["z"]) + 3, -128, 127)
    with Session(compile_model(model).model, "software") as session:
        found = session.run(feed, layout="nchw")["z"]
    assert np.abs(np.rint(found / scales["z"]) + 3 - wanted).max() <= 1
