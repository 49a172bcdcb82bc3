"""Truths and indices on the CPU, and operators that ONNX defines by others. Stands on ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.reference
import pytest

from openrknn.compiler import compile_model
from openrknn.container.parts import DataType
from openrknn.runtime.session import Session
from tests.compiler.nets import Net

Array = npt.NDArray[Any]


def results(model: Any, feed: dict[str, Array], **options: Any) -> list[tuple[Array, Array]]:
    """(found, wanted) for every output."""
    made = compile_model(model, "rk3588", **options)
    wanted = onnx.reference.ReferenceEvaluator(model).run(None, feed)
    with Session(made.model, "software") as session:
        four = {name: "nchw" for name, x in feed.items() if x.ndim == 4}
        found = session.run(feed, layout=four or None, outputs="float")
    return [(np.asarray(found[entry.name]), values) for entry, values in zip(model.graph.output, wanted, strict=True)]


def picture(*shape: int) -> Array:
    return np.random.default_rng(3).uniform(-2, 2, shape).astype(np.float16).astype(np.float32)


def indices(model: Any) -> Any:
    """The same with an output of whole numbers."""
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    return model


@pytest.mark.parametrize("kind", ["ArgMax", "ArgMin"])
def test_the_place_of_the_largest_score(kind: str) -> None:
    net = Net()
    made = net.add(kind, net.conv("x", 3, 10), axis=1, keepdims=0)
    model = indices(net.model({"x": (1, 3, 8, 8)}, [made]))
    ((found, wanted),) = results(model, {"x": picture(1, 3, 8, 8)})
    assert (found == wanted).mean() > 0.95  # fp16 may take the second best
    tensors = compile_model(model).model.graphs[0].tensors
    assert next(tensor for tensor in tensors if tensor.name == made).dtype is DataType.INT64


@pytest.mark.parametrize("calibrated", [False, True])
def test_comparisons_and_choices(calibrated: bool) -> None:
    net = Net()
    score = net.conv("x", 8, 8)
    asked = net.add("And", net.add("Greater", score, net.constant(0.1)), net.add("Less", score, net.constant(0.9)))
    model = net.model({"x": (1, 8, 6, 6)}, [net.add("Where", asked, score, net.constant(-1.0))])
    x = picture(1, 8, 6, 6)
    options = {"calibration": [{"x": x}]} if calibrated else {}
    ((found, wanted),) = results(model, {"x": x}, **options)
    assert (np.abs(found - wanted) < 0.05).mean() > 0.95  # a score beside a bound may fall on its other side


def test_the_second_output_alone() -> None:
    net = Net()
    net.nodes.append(onnx.helper.make_node("TopK", ["x", net.constant([3], np.int64)], ["", "places"], axis=1))
    ((found, wanted),) = results(indices(net.model({"x": (1, 50)}, ["places"])), {"x": picture(1, 50)})
    assert np.array_equal(found.reshape(-1), wanted.reshape(-1))


def test_the_first_dimension_need_not_be_a_batch() -> None:
    net = Net()
    made = net.add("ReduceMax", "x", axes=[0], keepdims=0)
    ((found, wanted),) = results(net.model({"x": (4, 3, 5)}, [made], opset=13), {"x": picture(4, 3, 5)})
    assert np.array_equal(found.reshape(-1), wanted.reshape(-1))


@pytest.mark.parametrize("kind", ["RMSNormalization", "Attention"])
def test_operators_that_onnx_defines(kind: str) -> None:
    net = Net()
    feed = {"x": picture(1, 12, 32)}
    if kind == "RMSNormalization":
        made = net.add(kind, "x", net.weights(32))
    else:
        made = net.add(kind, "x", "x", "x", q_num_heads=4, kv_num_heads=4)
    ((found, wanted),) = results(net.model({"x": (1, 12, 32)}, [made], opset=23), feed)
    assert np.abs(found - wanted).max() < 0.02 * np.abs(wanted).max()


def test_masks_of_minus_infinity() -> None:
    """Causal attention: what must not be seen is minus infinity in ONNX, and a number of fp16 in the file."""
    net = Net()
    mask = np.where(np.tril(np.ones((12, 12))), 0, -np.inf).astype(np.float32)
    scores = net.add("MatMul", "x", net.add("Transpose", "x", perm=[0, 2, 1]))
    made = net.add("MatMul", net.add("Softmax", net.add("Add", scores, net.constant(mask)), axis=-1), "x")
    ((found, wanted),) = results(net.model({"x": (1, 12, 32)}, [made]), {"x": picture(1, 12, 32)})
    assert np.abs(found.reshape(-1) - wanted.reshape(-1)).max() < 0.02 * np.abs(wanted).max()


def test_log_softmax() -> None:
    net = Net()
    made = net.add("LogSoftmax", net.conv("x", 8, 40), axis=1)
    ((found, wanted),) = results(net.model({"x": (1, 8, 4, 4)}, [made]), {"x": picture(1, 8, 4, 4)})
    assert np.abs(found - wanted).max() < 0.02


def test_a_long_signal_is_mirrored_without_a_matrix() -> None:
    """43,844 samples once became a convolution of two thousand million weights."""
    net = Net()
    padded = net.add("Pad", "x", net.constant([0, 0, 512, 0, 0, 512], np.int64), mode="reflect")
    model = net.model({"x": (1, 1, 43844)}, [padded])
    ((found, wanted),) = results(model, {"x": picture(1, 1, 43844)})
    assert np.array_equal(found.reshape(-1), wanted.reshape(-1))
    assert len(compile_model(model).data) < 100_000


def test_a_sum_of_five_dimensions_is_the_npus() -> None:
    """Swin's masks of windows."""
    net = Net()
    five = net.add("Reshape", net.conv("x", 8, 32), net.constant([1, 4, 8, 16, 16], np.int64))
    masked = net.add("Add", five, net.constant(np.random.default_rng(1).normal(0, 1, (1, 4, 1, 16, 16))))
    made = net.add("Reshape", masked, net.constant([1, 32, 16, 16], np.int64))
    model = net.model({"x": (1, 8, 16, 16)}, [made])
    ((found, wanted),) = results(model, {"x": picture(1, 8, 16, 16)})
    assert np.abs(found - wanted).max() < 0.02
    assert "Add" not in [node.type for node in compile_model(model).model.graphs[0].nodes if node.target == 0]
