"""Cross-layer equalisation: nothing changes in float, and int8 gains where channels are uneven."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from openrknn.compiler import compile_model
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.forms import Conv
from openrknn.compiler.importer import import_model
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.normalise import normalise
from openrknn.compiler.quantise.equalise import equalise, pairs_of
from openrknn.compiler.targets import RK3588
from openrknn.compiler.verify import verify
from tests.compiler.nets import Net, feeds

SHAPE = (1, 8, 9, 7)


def uneven(seed: int = 0, spread: float = 4.0, *, relu: bool = True, group: int = 1) -> onnx.ModelProto:
    """conv - depthwise - grouped conv - conv; channels differ by powers of e, and the next layer takes it back."""
    net = Net(seed)
    random = np.random.default_rng(seed)
    value, width = "x", 8
    for outputs, groups, kernel in ((24, 1, 1), (24, 24, 3), (16, group, 3), (12, 1, 1)):
        value = net.conv(value, width, outputs, kernel, group=groups, pads=[kernel // 2] * 4)
        width = outputs
        if outputs != 12 and relu:
            value = net.add("Relu", value)
    model = net.model({"x": SHAPE}, [value])
    constants = {entry.name: entry for entry in model.graph.initializer}
    convs = [node for node in model.graph.node if node.op_type == "Conv"]
    for first, second in pairwise(convs):
        weight, bias, reader = (numpy_helper.to_array(constants[name]) for name in (*first.input[1:], second.input[1]))
        factor = np.exp(random.uniform(-spread, spread, len(weight))).astype(np.float32) ** 0.5
        groups = {entry.name: entry for entry in second.attribute}["group"].i
        parts = reader.reshape(groups, -1, *reader.shape[1:]) / factor.reshape(groups, 1, -1, 1, 1)
        changed = weight * factor.reshape(-1, 1, 1, 1), bias * factor, parts.reshape(reader.shape)
        for name, array in zip((*first.input[1:], second.input[1]), changed, strict=True):
            constants[name].CopyFrom(numpy_helper.from_array(array, name))
    return model


def run(graph: Graph, value: Array) -> Array:
    """The graph's convolutions, in double precision, written down a second time."""
    values = {graph.inputs[0]: value.astype(np.float64)}
    for op in graph.ops:
        weight, bias = (graph.constants[name] for name in op.inputs[1:3])
        top, left, bottom, right = op.get(Conv).pads
        source = np.pad(values[op.inputs[0]], ((0, 0), (0, 0), (top, bottom), (left, right)))
        group = op.get(Conv).group
        windows = np.lib.stride_tricks.sliding_window_view(source, weight.shape[2:], (2, 3))
        split = windows.reshape(1, group, -1, *windows.shape[2:])
        kernels = weight.reshape(group, -1, *weight.shape[1:])
        made = np.einsum("ngchwij,gocij->ngohw", split, kernels).reshape(1, -1, *windows.shape[2:4])
        made = made + bias.reshape(1, -1, 1, 1)
        values[op.output] = np.maximum(made, 0) if op.activation else made
    return values[graph.outputs[0]]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), spread=st.floats(0, 12), relu=st.booleans(), group=st.sampled_from([1, 2, 4]))
def test_nothing_changes_in_float(seed: int, spread: float, relu: bool, group: int) -> None:
    imported = import_model(uneven(seed, spread, relu=relu, group=group))
    graph = imported.graph
    normalise(graph, atom=16, target=RK3588)
    value = feeds(SHAPE, 1, seed)[0]
    before = run(graph, value)
    found = equalise(graph, imported.model, [{"x": value}])
    assert found == 3
    after = run(graph, value)
    assert np.abs(after - before).max() <= 1e-9 * np.abs(before).max()


def test_channels_before_a_depthwise_convolution_become_alike() -> None:
    imported = import_model(uneven())
    graph, value = imported.graph, {"x": feeds(SHAPE, 1)[0]}
    normalise(graph, atom=16, target=RK3588)
    old = pairs_of(graph)[0][0].output
    equalise(graph, imported.model, [value])
    new = graph.ops[0].output
    assert new != old
    source, function = graph.derived[new]
    seen = dict(FloatModel(imported.model, [source]).run(value))[source]
    sizes = np.abs(function(seen)).max((0, 2, 3))
    alive = sizes > 0
    assert sizes[alive].max() <= np.abs(seen).max() * 1.001
    assert np.median(sizes[alive]) > 0.99 * sizes.max()


@pytest.mark.parametrize("method", ["minmax", "mse"])
def test_int8_gains_much_where_channels_are_uneven(method: str) -> None:
    model, data = uneven(1, 6.0), feeds(SHAPE)
    plain, evened = (
        verify(compile_model(model, calibration=data, method=method, equalize=equal))[0].decibels
        for equal in (False, True)
    )
    assert evened > plain + 6
    assert evened > 30


def test_a_value_that_onnx_does_not_have() -> None:
    """A large mean is taken in two steps: the value between them is derived, and so is what comes from it."""
    net = Net()
    pooled = net.add("GlobalAveragePool", net.add("Relu", net.conv("x", 8, 16)))
    out = net.conv(net.add("Relu", net.conv(pooled, 16, 16)), 16, 8)
    shape = (1, 8, 60, 60)
    model, data = net.model({"x": shape}, [out]), feeds(shape)
    assert verify(compile_model(model, calibration=data, method="minmax", equalize=True))[0].decibels > 25


def test_what_cannot_be_divided_stays() -> None:
    net = Net()
    a = net.add("Tanh", net.conv("x", 8, 16))  # not relu(x / s) = relu(x) / s
    b = net.conv(a, 16, 16)
    c = net.conv(b, 16, 16)
    out = net.conv(net.add("Add", c, b), 16, 8)  # b is read twice, and c is part of a sum
    graph = import_model(net.model({"x": SHAPE}, [out])).graph
    normalise(graph, atom=16, target=RK3588)
    assert pairs_of(graph) == []
