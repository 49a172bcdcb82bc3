"""How int8 is chosen: what errors cost, ranges, ties at concatenations, adaptive rounding. No oracle but arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.forms import Conv
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.quantise.choose import Costs, best_range, range_cost
from openrknn.compiler.quantise.rounding import Moments, channels_at_once, patches_of, round_weights
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.quantise.weights import quantize_weights

onnx = pytest.importorskip("onnx", reason="the extra 'compile' (onnx) is not installed")
helper, numpy_helper = onnx.helper, onnx.numpy_helper


def model(
    nodes: list[object], constants: dict[str, Array], shape: tuple[int, ...], outputs: dict[str, tuple[int, ...]]
) -> object:
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(name, kind, size) for name, size in outputs.items()],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def convolution(depthwise: bool, kernel: int) -> tuple[Op, Array, Array]:
    """An operator, its weights and an input with channels that know of each other."""
    chance = np.random.default_rng(3)
    channels, outputs = 24, 24 if depthwise else 16
    weights = chance.normal(0, 1, (outputs, 1 if depthwise else channels, kernel, kernel))
    mixed = np.einsum("ab,bhw->ahw", chance.normal(0, 1, (channels, channels)), chance.normal(0, 1, (channels, 20, 20)))
    side = kernel // 2
    form = Conv((kernel, kernel), pads=(side, side, side, side), group=channels if depthwise else 1)
    op = Op("Conv", "c", ["x", "w", "b"], ["y"], form=form)
    return op, weights, np.maximum(mixed, 0).astype(np.float32)[None]


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("kernel", [1, 3])
def test_adaptive_rounding_is_never_worse_than_the_nearest_on_its_data(depthwise: bool, kernel: int) -> None:
    op, weights, values = convolution(depthwise, kernel)
    moments = Moments()
    moments.add(patches_of(values, op, weights, 400, 24))
    made, ours, nearest = round_weights(weights, moments, 0.0)
    plain = quantize_weights(weights)
    assert ours <= nearest
    assert ours < 0.95 * nearest or (depthwise and kernel == 1), "one weight alone has nothing to cancel with"
    assert (made.scale == plain.scale).all()
    assert (made.zero_point == plain.zero_point).all()
    real = (made.stored - made.zero_point.reshape(-1, 1, 1, 1)) * made.scale.reshape(-1, 1, 1, 1)
    assert np.abs((real - weights) / made.scale.reshape(-1, 1, 1, 1)).max() < 1.001, "to one of its two neighbours"
    assert made.stored.min() >= -128
    assert made.stored.max() <= 127


def test_a_handful_of_windows_decides_nothing() -> None:
    weights = np.zeros((16, 200, 3, 3))
    assert channels_at_once(weights, 8) == 0
    assert channels_at_once(weights, 36) == 1, "four windows for each weight"
    assert channels_at_once(weights, 1 << 20) == 28


def test_other_inputs_decide_whether_adaptive_rounding_is_kept() -> None:
    op, weights, values = convolution(False, 1)
    fit, test = Moments(), Moments()
    fit.add(patches_of(values, op, weights, 400, 24))
    noise = np.random.default_rng(8).normal(0, 1, values.shape).astype(np.float32)  # channels that know of no other
    test.add(patches_of(noise, op, weights, 400, 24))
    made, ours, nearest = round_weights(weights, fit, 0.0, test)
    assert ours <= nearest
    assert np.mean(made.stored == quantize_weights(weights).stored) > 0.8


def test_costs_of_a_linear_model_are_its_squared_weights() -> None:
    from openrknn.compiler.quantise.gradient import channel_costs

    chance = np.random.default_rng(0)
    weights = chance.normal(0, 1, (64, 8, 1, 1)) * np.linspace(0.1, 2, 8).reshape(1, -1, 1, 1)
    net = model([helper.make_node("Conv", ["x", "w"], ["y"])], {"w": weights}, (1, 8, 16, 16), {"y": (1, 64, 16, 16)})
    values = chance.normal(0, 1, (1, 8, 16, 16)).astype(np.float32)
    found = channel_costs(net, ["y"], [{"x": values}] * 2)["x"]
    made = np.einsum("ncHW,oc->noHW", values, weights[..., 0, 0])
    wanted = (weights**2).sum((0, 2, 3)) / np.sum(made**2)
    assert np.allclose(found, wanted, rtol=0.25)


def test_what_leads_to_an_operator_without_an_adjoint_is_not_known() -> None:
    from openrknn.compiler.quantise.gradient import channel_costs

    nodes = [
        helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Ceil", ["a"], ["b"]),
        helper.make_node("Sigmoid", ["b"], ["y"]),
    ]  # fmt: skip
    net = model(nodes, {}, (1, 4, 8, 8), {"y": (1, 4, 8, 8)})
    net = onnx.shape_inference.infer_shapes(net)
    found = channel_costs(net, ["y"], [{"x": np.ones((1, 4, 8, 8), np.float32)}])
    assert "b" in found
    assert not {"a", "x"} & set(found)


def test_a_form_that_no_rule_has_thought_of_stops_there_and_nothing_else() -> None:
    from openrknn.compiler.quantise.gradient import channel_costs

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], auto_pad="SAME_UPPER"), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2]),
    ]  # fmt: skip
    net = model(nodes, {"w": np.ones((4, 4, 3, 3))}, (1, 4, 9, 8), {"y": (1, 4, 5, 4)})
    net = onnx.shape_inference.infer_shapes(net)
    found = channel_costs(net, ["y"], [{"x": np.ones((1, 4, 9, 8), np.float32)}])
    assert {"a", "b", "y"} == set(found)


def seen(values: list[Array]) -> Statistics:
    entry = Statistics()
    for array in values:
        entry.add(array)
    return entry


def test_one_odd_input_among_many_does_not_take_the_steps_of_all_others() -> None:
    chance = np.random.default_rng(2)
    usual = [np.maximum(chance.normal(0, 1, (1, 4, 16, 16)), 0).astype(np.float32) for _ in range(40)]
    odd = usual[0].copy()
    odd[0, 0, 0, 0] = 1000.0
    costs = Costs({"v": seen([*usual, odd])}, {"v": np.full(4, 1e-4)})
    counts, centres = costs.histogram(["v"], (0.0, 1000.0), {})
    (low, high), cost = best_range(counts, centres, (0.0, 1000.0), (0.0, 0.0))
    assert low == 0
    assert 3 < high < 200
    assert cost < range_cost(counts, centres, 0.0, 1000.0) / 2
    assert best_range(counts, centres, (0.0, 1000.0), (0.0, 700.0))[0][1] >= 700, "what is held stays inside"


def test_memory_of_statistics_does_not_grow_with_the_inputs() -> None:
    array = np.arange(64 * 64 * 16, dtype=np.float32).reshape(1, 16, 64, 64)
    few, many = seen([array] * 8), seen([array] * 300)
    sizes = [sum(part.values.nbytes for part in entry.samples) for entry in (few, many)]
    assert sizes[1] <= 2.1 * sizes[0]
    for entry in (few, many):
        assert sum(part.each * len(part.values) for part in entry.samples) == pytest.approx(
            entry.count * array.size, rel=0.02
        )


def forked() -> object:
    """A small value that a concatenation with a large one reads, and another convolution too."""
    chance = np.random.default_rng(5)
    constants = {
        "w1": chance.normal(0, 0.02, (16, 16, 1, 1)), "w2": chance.normal(0, 20, (16, 16, 1, 1)),
        "w3": chance.normal(0, 20, (16, 16, 1, 1)), "w4": chance.normal(0, 0.1, (16, 32, 1, 1)),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"]), helper.make_node("Relu", ["c1"], ["small"]),
        helper.make_node("Conv", ["x", "w2"], ["c2"]), helper.make_node("Relu", ["c2"], ["large"]),
        helper.make_node("Conv", ["small", "w3"], ["other"]),
        helper.make_node("Concat", ["small", "large"], ["both"], axis=1),
        helper.make_node("Conv", ["both", "w4"], ["y"]),
    ]  # fmt: skip
    return model(nodes, constants, (1, 16, 12, 12), {"y": (1, 16, 12, 12), "other": (1, 16, 12, 12)})


def scale(graph: Graph, name: str) -> float:
    quantization = graph.values[name].quantization
    assert quantization is not None
    return quantization.scale


def test_a_small_part_of_a_concatenation_keeps_its_scale_for_others() -> None:
    data = [np.random.default_rng(n).normal(0, 1, (1, 16, 12, 12)).astype(np.float32) for n in range(4)]
    made = compile_model(forked(), calibration=data)
    assert scale(made.graph, "small") < scale(made.graph, "both") / 20
    assert scale(made.graph, "small_rescaled") == scale(made.graph, "both")
    tied = compile_model(forked(), calibration=data, method="minmax")
    assert scale(tied.graph, "small") == scale(tied.graph, "both")
    snr = {}
    from openrknn.compiler.verify import verify

    for name, entry in (("untied", made), ("tied", tied)):
        snr[name] = next(verdict.decibels for verdict in verify(entry) if verdict.output == "other")
    assert snr["untied"] > snr["tied"] + 10


def test_a_neighbour_whose_cost_is_not_known_keeps_its_range() -> None:
    """Six times as large as `x`, it shares the scale with it, and lies in memory under another name: it was clipped."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"], "product"),
             helper.make_node("Concat", ["x", "product"], ["both"], "join", axis=-1),
             helper.make_node("Abs", ["both"], ["y"], "size")]  # fmt: skip
    data = [np.random.default_rng(n).normal(0, 1, (1, 24, 2, 1)).astype(np.float32) for n in range(4)]
    net = model(nodes, {"w": np.array([[6.0, -5.0, 0.5]])}, (1, 24, 2, 1), {"y": (1, 24, 2, 4)})
    made = compile_model(net, calibration=data)
    quantization = made.graph.values["x"].quantization
    largest = 6 * max(np.abs(entry).max() for entry in data)
    assert quantization is not None
    assert max(-quantization.low, quantization.high) > 0.9 * largest


def test_every_range_says_why_and_the_same_data_give_the_same_file() -> None:
    data = [np.random.default_rng(n).normal(0, 1, (1, 16, 12, 12)).astype(np.float32) for n in range(4)]
    first, second = (compile_model(forked(), calibration=data) for _ in range(2))
    assert first.data == second.data
    named = {choice.value for choice in first.ranges}
    assert {"x", "small", "large", "both", "y", "other"} <= named
    assert all(choice.reason and choice.low <= 0 <= choice.high for choice in first.ranges)
    assert first.rounding_db
    assert min(first.rounding_db.values()) >= 0


def test_logits_can_cross_zero() -> None:
    chance = np.random.default_rng(7)
    constants = {"w": chance.normal(0, 0.01, (4, 8, 1, 1)), "b": np.full(4, -6.0)}
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["logit"]), helper.make_node("Sigmoid", ["logit"], ["y"])]
    net = model(nodes, constants, (1, 8, 8, 8), {"logit": (1, 4, 8, 8), "y": (1, 4, 8, 8)})
    data = [chance.normal(0, 1, (1, 8, 8, 8)).astype(np.float32) for _ in range(3)]
    made = compile_model(net, calibration=data)
    quantization = made.graph.values["logit"].quantization
    assert quantization is not None
    assert quantization.low < -5
    assert quantization.high > 1


def test_rounding_that_is_measured_to_be_worse_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from openrknn.compiler import pipeline

    data = [np.random.default_rng(n).normal(0, 1, (1, 16, 12, 12)).astype(np.float32) for n in range(6)]
    nearest = compile_model(forked(), calibration=data, adaptive_rounding=False)
    assert nearest.way["adaptive_rounding"] is False
    monkeypatch.setattr(pipeline, "is_rounding_better", lambda *_: False)
    made = compile_model(forked(), calibration=data)
    assert made.way["adaptive_rounding"] is False
    assert made.data == nearest.data
    assert not made.rounding_db
    monkeypatch.setattr(pipeline, "is_rounding_better", lambda *_: True)
    adaptive = compile_model(forked(), calibration=data)
    assert adaptive.way["adaptive_rounding"] is True
    assert adaptive.data != nearest.data
