"""What random graphs found: each was wrong, or a traceback, and is right in fp16 and in int8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import helper

from openrknn.compiler import compile_model
from openrknn.compiler.ir import Quantization
from openrknn.compiler.quantise.weights import least_scales, quantize_bias, quantize_weights
from tests.compiler.nets import Net
from tools.accuracy.models import CASES, build
from tools.compiler_gate.judge import judge_model

Build = Callable[[Net], Sequence[str]]


def _nested(net: Net) -> Sequence[str]:
    """A part of an output that the CPU reads: a window into memory that may be the user's has no address."""
    inner = net.add("Concat", "x", "x", "y", axis=-1)
    turned = net.add("Tile", inner, net.constant([1, 1], np.int64))
    return [net.add("Concat", turned, inner, "y", axis=-1)]


def _split(net: Net, sizes: Sequence[int], axis: int, kept: int) -> Sequence[str]:
    names = [f"part{at}" for at in range(len(sizes))]
    net.nodes.append(helper.make_node("Split", ["x", net.constant(sizes, np.int64)], names, axis=axis, name="split"))
    return [names[kept]]


def _turned(net: Net, channels: int, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]) -> list[str]:
    given = {"kernel_shape": list(kernel), "strides": list(strides), "pads": list(pads)}
    return [net.add("ConvTranspose", "x", net.weights(channels, 8, *kernel), **given)]


def _quotient(net: Net) -> Sequence[str]:
    divisor = net.add("Add", net.add("Relu", "y"), net.constant(1.0))
    weight = net.weights(8, 7, 3)
    return [net.add("Conv", net.add("Div", "x", divisor), weight, group=4, kernel_shape=[3])]


def _by_constant(net: Net) -> Sequence[str]:
    divided = net.add("Div", "x", net.constant(net.random.uniform(0.5, 2, (12, 13, 16))))
    return [net.add("Concat", divided, "x", divided, axis=1)]


def _both(net: Net) -> Sequence[str]:
    """The CPU sees [9], the NPU [1, 9, 1, 1]."""
    return [net.add("Softmax", "x", axis=0), net.add("Elu", "x")]


def _output_that_is_read(net: Net) -> Sequence[str]:
    root = net.add("Sqrt", net.add("Abs", net.add("ReduceSum", "x", net.constant([3], np.int64), keepdims=0)))
    return [root, net.add("Relu", net.add("Mul", root, root))]


def _ceiling(net: Net, kind: str, **given: Sequence[int]) -> Sequence[str]:
    """The last window would begin behind the last pixel: there is none."""
    return [net.add("Relu", net.add(kind, "x", ceil_mode=1, **given))]


def _no_batch(net: Net) -> Sequence[str]:
    """Truths are the CPU's, and what they are made of becomes fp16: of all items, which are none of a batch."""
    bound = net.constant(0.1)
    return [net.add("Where", net.add("Less", "x", bound), bound, "x"), net.add("Softmax", "x", axis=0)]


def _joined_quotients(net: Net) -> Sequence[str]:
    """NaN in unused lanes reaches a convolution through rows that are joined."""
    quotient = net.add("Div", "x", net.add("Add", net.add("Relu", "y"), net.constant(1.0)))
    return [net.add("Conv", net.add("Concat", "y", quotient, axis=2), net.weights(4, 12, 1, 1), kernel_shape=[1, 1])]


def _scaled_part(net: Net) -> Sequence[str]:
    """A part that is multiplied at once has not the range of the whole any more."""
    joined = net.add("Concat", "x", net.add("Sigmoid", "x"), axis=3)
    turned = net.add("Transpose", joined, perm=[0, 2, 3, 1])
    places = (net.constant([number], np.int64) for number in (2, 5, 1))
    part = net.add("Slice", turned, *places)
    return [net.add("Mul", part, net.constant(20.0))]


FOUND: Mapping[str, tuple[Build, dict[str, Sequence[int]]]] = {
    "a window into an output": (_nested, {"x": (1, 64), "y": (1, 32)}),
    "a constant in a Concat of the CPU": (
        lambda net: [net.add("Concat", "x", net.constant([-0.2, 0.3, 0.5]), "y", axis=0)], {"x": (5,), "y": (5,)},
    ),
    "an input of both": (_both, {"x": (9,)}),
    "an output of both": (_output_that_is_read, {"x": (1, 1, 16, 2)}),
    "a product of one row": (
        lambda net: [net.add("MatMul", net.add("Mul", "x", net.constant(0.5)), "y")], {"x": (1, 13), "y": (13, 1)},
    ),
    "a part that nobody reads": (lambda net: _split(net, [10, 3], 2, 0), {"x": (1, 7, 13)}),
    "parts of five dimensions": (lambda net: _split(net, [2, 4], 1, 1), {"x": (1, 6, 2, 4, 4)}),
    "more cut off than the kernel": (lambda net: _turned(net, 2, (1, 2), (2, 1), (1, 1, 0, 0)), {"x": (1, 2, 4, 7)}),
    "more cut off than two taps": (lambda net: _turned(net, 8, (2, 2), (3, 3), (2, 2, 0, 0)), {"x": (1, 8, 4, 7)}),
    "groups behind a quotient": (_quotient, {"x": (1, 28, 32), "y": (1, 28, 32)}),
    "a quotient by a constant map": (_by_constant, {"x": (1, 12, 13, 16)}),
    "a mean of a long signal": (lambda net: [net.add("GlobalAveragePool", "x")], {"x": (1, 6, 32)}),
    "means of a padded signal": (
        lambda net: [net.add("AveragePool", "x", kernel_shape=[3], pads=[1, 1])], {"x": (1, 6, 32)},
    ),
    "bounds of more than three digits": (
        lambda net: [net.add("Clip", "x", net.constant(0.7487458), net.constant(1.634783))], {"x": (1, 17, 8, 8)},
    ),
    "no window behind the last column": (
        lambda net: _ceiling(net, "AveragePool", kernel_shape=[3, 1], strides=[2, 2]), {"x": (1, 32, 16, 4)},
    ),
    "no window behind the last row": (
        lambda net: _ceiling(net, "MaxPool", kernel_shape=[2, 2], strides=[3, 5], pads=[0, 0, 1, 1]),
        {"x": (1, 32, 17, 6)},
    ),
    "a choice of several maps": (_no_batch, {"x": (3, 7, 1, 6)}),
    "a choice of several rows": (_no_batch, {"x": (2, 4)}),
    "a quotient in joined rows": (_joined_quotients, {"x": (1, 12, 6, 12), "y": (1, 12, 6, 12)}),
    "a bound near zero": (
        lambda net: [net.add("Clip", net.add("Mul", "x", net.constant(0.05)), "", net.constant(-0.0123))],
        {"x": (1, 960)},
    ),
    "squares of picked channels": (
        lambda net: [net.add("Gather", net.add("Mul", "x", "x"), net.constant([4, 0, 3], np.int64), axis=1)],
        {"x": (1, 6)},
    ),
    "lengths of columns": (lambda net: [net.add("LpNormalization", "x", axis=2, p=2)], {"x": (2, 32, 2, 3)}),
    "lengths of rows": (lambda net: [net.add("LpNormalization", "x", axis=3, p=2)], {"x": (1, 32, 2, 3)}),
    "a length of one number": (lambda net: [net.add("ReduceL2", "x", axes=[2])], {"x": (1, 8, 1, 7)}),
}  # fmt: skip


@pytest.mark.parametrize("form", ["fp16", "int8"])
@pytest.mark.parametrize("name", FOUND)
def test_found_by_random_graphs(name: str, form: str) -> None:
    build, inputs = FOUND[name]
    net = Net()
    model: Any = net.model(inputs, build(net))
    found = judge_model(model, form, "rk3588")
    assert found.kind == "right", found.text


def test_numbers_divided_by_their_length_are_fp16_in_int8() -> None:
    """The reciprocals of all lengths had one scale: 12 dB."""
    assert judge_model(build(CASES["cosine similarity"]), "int8", "rk3588").kind == "right"


def _shares(shape: tuple[int, ...], axis: int, power: int) -> Any:
    net = Net()
    return net.model({"x": shape}, [net.add("LpNormalization", "x", axis=axis, p=power)])


@pytest.mark.parametrize(("target", "shape", "axis"), [("rk3588", (1, 64, 2, 3), 1), ("rk3566", (1, 6, 40), 2)])
def test_sums_of_sizes_beyond_fp16(target: str, shape: tuple[int, ...], axis: int) -> None:
    """x over the sum of |x|, which ONNX does not show: 0 dB without a word for inputs of 3000."""
    assert judge_model(_shares(shape, axis, 1), "fp16", target, sizes=(0.003, 3000.0)).kind == "right"


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(
    ("target", "shape", "axis"),
    [("rk3576", (1, 8, 6, 5), 3), ("rk3588", (1, 2, 3000), 2)], ids=["no mean of fp16", "a mean in three steps"],
)  # fmt: skip
def test_lengths_in_int8(target: str, shape: tuple[int, ...], axis: int, power: int) -> None:
    """Both were refused: the mean of fp16 numbers by the pooling unit, and parts of a mean without a range."""
    assert judge_model(_shares(shape, axis, power), "int8", target).kind == "right"


@pytest.mark.parametrize("power", [1, 2])
def test_a_length_that_is_fp16_anyway_may_be_asked_for_in_fp16(power: int) -> None:
    """Its name belongs to what was written in its place: `--fp16-layers` did not find it."""
    made = _shares((1, 8, 4, 4), 1, power)
    name = made.graph.node[0].name
    data = [{"x": np.random.default_rng(0).normal(0, 1, (1, 8, 4, 4)).astype(np.float32)}]
    found = compile_model(made, "rk3588", calibration=data, fp16_layers=[name], check=False)
    assert {choice.precision for choice in found.precision} == {"fp16"}
    assert found.precision[-1].reason == "named in fp16_layers"


def test_a_part_that_is_multiplied_has_a_range_of_its_own() -> None:
    net = Net()
    found = judge_model(net.model({"x": (1, 24, 6, 8)}, _scaled_part(net)), "int8", "rk3588")
    assert found.kind == "right"
    assert found.text.startswith("matches ONNX"), found.text  # with the scale of the whole: 13.8 dB


def test_a_bias_far_beyond_the_steps_of_its_input() -> None:
    """What normalisation makes of a channel of one number is all bias, in steps of next to 0: it was cut off."""
    source, weights, bias = Quantization(2.4e-7, 30), np.full((2, 1, 1, 1), 0.01), np.array([1.5, -0.3])
    assert (quantize_bias(bias, source, quantize_weights(weights))[:1] == 2**31 - 1).all()
    fitting = quantize_weights(weights, least_scales(bias, source))
    sums = (fitting.stored - fitting.zero_point.reshape(-1, 1, 1, 1)).reshape(2)
    found = (quantize_bias(bias, source, fitting) + source.zero_point * sums) * fitting.scale * source.scale
    assert np.allclose(found, bias, rtol=1e-6)
