"""Small graphs that once compiled to wrong numbers without a word: each is right now, or refused by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from openrknn.compiler import compile_model
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.importer.shapes import cut_outputs
from openrknn.compiler.verify import verify
from tests.compiler.nets import Net
from tools.compiler_nodes import FORMS, Case, Outcome, cases, judge

STRIDE, STRIDE_IN_PARTS = 9, 60
"""Of the node tests, every ninth; in parts they take ten times as long. tools/compiler_nodes.py runs them all."""
NO_MODELS = {("item", "test_prelu_example")}
"""Slopes for three items and an input of one: refused by name, but the verifier between passes sees it first."""


def outcome(net: Net, inputs: Mapping[str, Sequence[int]], *outputs: str, opset: int = 17, low: float = -2) -> str:
    model = net.model(inputs, outputs, opset=opset)
    random = np.random.default_rng(7)
    feed = {name: random.uniform(low, 2, shape).astype(np.float32) for name, shape in inputs.items()}
    wanted = dict(FloatModel(model, outputs).run(feed))
    found = judge(Case("net", model, feed, {name: wanted[name] for name in outputs}))
    return f"{found.kind} {found.text}".strip()


@pytest.mark.parametrize("form", FORMS)
def test_node_tests_of_onnx(form: str) -> None:
    bad = {}
    for case in islice(cases(form), None, None, STRIDE_IN_PARTS if form == "partition" else STRIDE):
        found = judge(case)
        if found.kind in {"wrong", "traceback"} and (form, case.name) not in NO_MODELS:
            bad[case.name] = found
    assert not bad


def test_what_fp16_has_no_numbers_for_is_told_apart() -> None:
    names = {"test_softmax_large_number": "rounded to fp16", "test_reduce_prod_default_axes_keepdims_example": "beyond"}
    found = {case.name: judge(case) for case in cases("plain") if case.name in names}
    assert {name: outcome.kind for name, outcome in found.items()} == dict.fromkeys(names, "fp16")
    assert all(names[name] in outcome.text for name, outcome in found.items())


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (4, 2), (3, 1), (5, 3)])
@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_transposed_convolutions_with_automatic_padding(auto_pad: str, kernel: int, stride: int) -> None:
    net = Net()
    given = {"auto_pad": auto_pad, "strides": [stride, stride], "kernel_shape": [kernel, kernel]}
    made = net.add("ConvTranspose", "x", net.weights(8, 4, kernel, kernel), **given)
    assert outcome(net, {"x": (1, 8, 5, 6)}, made) == "right"


def test_transposed_convolutions_with_an_output_shape() -> None:
    net = Net()
    made = net.add("ConvTranspose", "x", net.weights(8, 4, 3, 3), strides=[2, 2], output_shape=[10, 12])
    assert outcome(net, {"x": (1, 8, 5, 6)}, made) == "right"


@pytest.mark.parametrize("channels", [1, 3, 4, 8])
@pytest.mark.parametrize("width", [5, 8])
def test_pictures_padded_with_a_number(channels: int, width: int) -> None:
    net = Net()
    padded = net.add("Pad", "x", net.constant([0, 0, 1, 2, 0, 0, 3, 1], np.int64), net.constant(1.5))
    assert outcome(net, {"x": (1, channels, 6, width)}, padded) == "right"
    assert outcome(net, {"x": (1, channels, 6, width)}, net.conv(padded, channels, 8, 3)) == "right"


def test_pictures_that_are_shifted_before_they_are_padded() -> None:
    """The shift goes into the convolution, which then pads with another number than 0."""
    net = Net()
    shifted = net.add("Sub", net.add("Div", "x", net.constant(0.5)), net.constant(1.0))
    assert outcome(net, {"x": (1, 3, 7, 9)}, net.conv(shifted, 3, 8, 3, pads=[1, 1, 1, 1])) == "right"


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize(("kernel", "stride", "pad", "size"), [(3, 2, 1, 8), (3, 2, 0, 8), (2, 2, 0, 7)])
def test_means_of_windows_that_hang_over(counted: int, kernel: int, stride: int, pad: int, size: int) -> None:
    net = Net()
    given = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    made = net.add("AveragePool", "x", ceil_mode=1, count_include_pad=counted, **given)
    assert outcome(net, {"x": (1, 8, size, size)}, made) == "right"


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceMean"])
@pytest.mark.parametrize("axes", [[0, 1, 2, 3], [1, 2, 3], [1, 2], [1], [2, 3]])
def test_sums_over_channels_and_pixels(kind: str, axes: list[int]) -> None:
    net = Net()
    operand = [net.constant(axes, np.int64)] if kind == "ReduceSum" else []
    made = net.add(kind, "x", *operand, **({} if operand else {"axes": axes}))
    assert outcome(net, {"x": (1, 8, 5, 6)}, made, opset=13) == "right"


def test_a_variance_by_squares() -> None:
    """mean(x^2) - mean(x)^2 of numbers around 30 is lost in fp16; mean((x - mean)^2) is not."""
    net = Net()
    moved = net.add("Add", "x", net.constant(30.0))
    mean = net.add("ReduceMean", moved, axes=[2, 3])
    squares = net.add("ReduceMean", net.add("Pow", moved, net.constant(2.0)), axes=[2, 3])
    variance = net.add("Sub", squares, net.add("Pow", mean, net.constant(2.0)))
    made = net.add("Div", net.add("Sub", moved, mean), net.add("Sqrt", variance))
    assert outcome(net, {"x": (1, 8, 6, 6)}, made, opset=13) == "right"


@pytest.mark.parametrize("axis", [0, 1])
def test_unit_length_of_zeros(axis: int) -> None:
    net = Net()
    made = net.add("LpNormalization", net.add("Relu", "x"), axis=axis)
    model = net.model({"x": (1, 8, 4, 4)}, [made])
    feed = {"x": np.full((1, 8, 4, 4), -1, np.float32)}
    assert judge(Case("zeros", model, feed, {made: np.zeros((1, 8, 4, 4), np.float32)})).kind == "right"


@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 4, 5), 2), ((2, 3, 4, 5), -1), ((2, 3, 4), 3)])
def test_flattening_a_batch(shape: tuple[int, ...], axis: int) -> None:
    net = Net()
    assert outcome(net, {"x": shape}, net.add("Flatten", "x", axis=axis)) == "right"


@pytest.mark.parametrize("mask", [None, -1e4, -1e9, -3.4028235e38, -np.inf])
def test_masks_of_attention(mask: float | None) -> None:
    net = Net()
    length, depth = 16, 32
    heads, turned = net.constant([1, length, 2, 16], np.int64), {"perm": [0, 2, 1, 3]}
    q, k, v = (
        net.add("Transpose", net.add("Reshape", net.add("MatMul", "x", net.weights(depth, depth)), heads), **turned)
        for _ in range(3)
    )
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    if mask is not None:
        full = np.where(np.triu(np.ones((length, length)), 1), mask, 0)
        scores = net.add("Add", scores, net.constant(full))
    seen = net.add("Transpose", net.add("MatMul", net.add("Softmax", scores, axis=-1), v), **turned)
    made = net.add("MatMul", net.add("Reshape", seen, net.constant([1, length, depth], np.int64)), net.weights(32, 32))
    assert outcome(net, {"x": (1, length, depth)}, made) == "right"


@pytest.mark.parametrize("channels", [4, 20, 32])
def test_a_layer_normalisation_of_one_token(channels: int) -> None:
    net = Net()
    gamma, beta = net.constant(np.linspace(0.5, 1.5, channels)), net.constant(np.linspace(-1, 1, channels))
    made = net.add("MatMul", net.add("LayerNormalization", "x", gamma, beta), net.weights(channels, 12))
    assert outcome(net, {"x": (1, 1, channels)}, made) == "right"


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul", "Max"])
@pytest.mark.parametrize(
    ("left", "right"), [((1, 8), (1, 1, 8)), ((1, 8, 5), (5,)), ((1, 8, 5), (1, 5)), ((1, 6, 8), (8,))]
)
def test_operands_of_different_rank(kind: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    net = Net()
    assert outcome(net, {"x": left, "y": right}, net.add(kind, "x", "y")) == "right"


@pytest.mark.parametrize("channels", [1, 2, 8])
def test_instance_normalisation_of_few_channels(channels: int) -> None:
    net = Net()
    made = net.add("InstanceNormalization", "x", net.constant(np.ones(channels)), net.constant(np.zeros(channels)))
    assert outcome(net, {"x": (1, channels, 5, 6)}, made) == "right"


@pytest.mark.parametrize("channels", [1, 3, 12])
def test_a_convolution_behind_a_quotient(channels: int) -> None:
    """Lanes beyond the last channel are 0 / 0."""
    net = Net()
    made = net.add("Relu", net.add("Div", "x", net.add("Add", net.add("Relu", "y"), net.constant(1.0))))
    inputs = {"x": (1, channels, 5, 6), "y": (1, channels, 5, 6)}
    assert outcome(net, inputs, net.conv(made, channels, 8)) == "right"


@pytest.mark.parametrize(("shape", "axis"), [((1, 8), 1), ((1, 8, 4, 4), 1), ((1, 8, 4, 4), 2)])
def test_one_number_of_an_input(shape: tuple[int, ...], axis: int) -> None:
    net = Net()
    assert outcome(net, {"x": shape}, net.add("Gather", "x", net.constant(0, np.int64), axis=axis)) == "right"


@pytest.mark.parametrize(("left", "right"), [((4, 8), (1, 8, 6)), ((4, 8), (1, 2, 8, 6)), ((1, 4, 8), (1, 8, 6))])
def test_a_constant_times_an_activation(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    net = Net()
    made = net.add("MatMul", net.constant(net.random.normal(0, 1, left)), "x")
    assert outcome(net, {"x": right}, made) == "right"


@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize(
    ("channels", "is_int8", "start"), [(8, False, 0), (24, False, 0), (16, True, 0), (64, True, 48)]
)
def test_a_convolution_plus_an_input_with_an_odd_number_of_surfaces(
    channels: int, is_int8: bool, start: int, cores: int
) -> None:
    """RK3588 reads two surfaces at a time: it read past the end of an input that fills its pages."""
    net = Net()
    bounds = [net.constant([number], np.int64) for number in (start, channels, 1)]
    added = net.add("Slice", "f", *bounds) if start else "f"
    made = net.add("Add", net.add("Conv", "x", net.weights(channels - start, 32, 1, 1)), added)
    model = net.model({"x": (1, 32, 16, 16), "f": (1, channels, 16, 16)}, [made])
    random = np.random.default_rng(7)
    data = {name: random.uniform(-1, 1, (1, size, 16, 16)).astype(np.float32) for name, size in
            (("x", 32), ("f", channels))}  # fmt: skip
    # The check of the build runs it: a read outside the input is an error there.
    compiled = compile_model(model, cores=cores, calibration=[data] if is_int8 else None)
    assert [operator.type for operator in compiled.model.operators][-2:] == ["ConvAdd", "OutputOperator"]


def _dropout(net: Net) -> tuple[str, ...]:
    net.nodes.append(helper.make_node("Dropout", ["x"], ["y", "mask"], name="drop"))
    return "y", net.add("Cast", "mask", to=onnx.TensorProto.FLOAT)


def _quantised(net: Net) -> list[str]:
    net.nodes.append(helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"], name="dynamic"))
    return [net.add("Cast", "y", to=onnx.TensorProto.FLOAT)]


REFUSED: dict[str, tuple[Callable[[Net], Sequence[str]], dict[str, Sequence[int]], str]] = {
    "a mask of Dropout": (_dropout, {"x": (1, 8)}, "makes a mask"),
    "a batch norm of training": (
        lambda net: [net.add("BatchNormalization", "x", "s", "s", "s", "s")], {"x": (1, 8, 4, 4), "s": (8,)},
        "at run time",
    ),
    "a first dimension that is none": (
        lambda net: [net.add("MaxPool", net.add("Reshape", "x", net.constant([8, 4, 4, 1], np.int64)),
                             kernel_shape=[2, 1])], {"x": (1, 8, 4, 4)},
        "its first dimension is 8",
    ),
    "integers of a float": (
        lambda net: [net.add("Cast", net.add("CastLike", "x", net.constant([1], np.int8)), to=onnx.TensorProto.FLOAT)],
        {"x": (1, 8)}, "CastLike",
    ),
    "integers that depend on all numbers": (_quantised, {"x": (1, 8)}, "DynamicQuantizeLinear"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    build, inputs, message = REFUSED[name]
    net = Net()
    outputs = build(net)
    with pytest.raises(UnsupportedOperatorError, match=message):
        compile_model(net.model(inputs, outputs, opset=19))


def detector(classes: int) -> onnx.ModelProto:
    """Boxes as the mean of 16 places, and scores: the end of a YOLOv8."""
    net = Net()
    boxes, scores = net.conv("x", 8, 64), net.conv("x", 8, classes)
    places = net.add("Reshape", boxes, net.constant([1, 4, 16, 16], np.int64))
    likely = net.add("Softmax", net.add("Transpose", places, perm=[0, 2, 1, 3]), axis=1)
    weight = net.constant(np.arange(16.0).reshape(1, 16, 1, 1))
    mean = net.add("Reshape", net.add("Conv", likely, weight), net.constant([1, 4, 16], np.int64))
    flat = net.add("Sigmoid", net.add("Reshape", scores, net.constant([1, classes, 16], np.int64)))
    return net.model({"x": (1, 8, 4, 4)}, [net.add("Concat", mean, flat, axis=1)])


@pytest.mark.parametrize("classes", [1, 3])
def test_heads_of_a_detector_with_one_class(classes: int) -> None:
    model: Any = detector(classes)
    cut_outputs(model, ["heads"])
    assert [entry.name for entry in model.graph.output] == ["t1", "t2"]


def test_space_to_depth_in_both_orders() -> None:
    chosen = [case for case in cases("plain") if "spacetodepth" in case.name and "example" in case.name]
    assert chosen
    assert {judge(case) for case in chosen} == {Outcome("right")}


@pytest.mark.parametrize("steps", [1, 4])
def test_a_recurrent_detector(steps: int) -> None:
    """One step at a time is how voice detectors run: [1, 1, C] is one pixel, not one channel. fp16 was at 1.7 dB."""
    net = Net()
    size = 16
    given: dict[str, Any] = {"hidden_size": size, "linear_before_reset": 1}
    weights = [net.constant(net.random.normal(0, 0.4, shape)) for shape in ((1, 48, 10), (1, 48, 16), (1, 96))]
    turned = net.add("Transpose", "x", perm=[1, 0, 2])
    net.nodes.append(helper.make_node("GRU", [turned, *weights], ["states", ""], name="gru", **given))
    rows = net.add("Transpose", net.add("Squeeze", "states", net.constant([1], np.int64)), perm=[1, 0, 2])
    inner = net.add("Relu", net.add("Add", net.add("MatMul", rows, net.weights(size, 4)), net.constant(np.ones(4))))
    out = net.add("Sigmoid", net.add("Add", net.add("MatMul", inner, net.weights(4, 1)), net.constant([1.0])))
    inputs = {"x": (1, steps, 10)}
    assert outcome(net, inputs, out) == "right"
    random = np.random.default_rng(1)
    data = [random.normal(0, 1, inputs["x"]).astype(np.float32) for _ in range(8)]
    assert min(entry.decibels for entry in verify(compile_model(net.model(inputs, [out]), calibration=data))) > 25


@pytest.mark.parametrize("mode", ["reflect", "edge"])
def test_a_border_of_many_samples_is_the_cpus(mode: str) -> None:
    """43,844 samples made a matrix of 15 GB."""
    net = Net()
    out = net.add("Pad", "x", net.constant([0, 0, 512, 0, 0, 512], np.int64), mode=mode)
    assert outcome(net, {"x": (1, 1, 43844)}, out) == "right"
    made = compile_model(net.model({"x": (1, 1, 43844)}, [out]))
    assert [step.type for step in made.lowering.program.steps if step.is_cpu].count("Pad") == 1
