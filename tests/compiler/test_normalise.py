from __future__ import annotations

import copy

import numpy as np
import pytest

from openrknn.compiler import compile_model
from openrknn.compiler.errors import UnsupportedOperatorError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.forms import Activation, Conv
from openrknn.compiler.importer import import_model
from openrknn.compiler.ir import Graph, diff_graphs
from openrknn.compiler.normalise import normalise
from openrknn.compiler.targets import RK3588
from openrknn.runtime.session import Session
from tests.compiler.nets import Net, feeds


def normalised(net: Net, outputs: list[str], shape: tuple[int, ...] = (1, 16, 8, 8), atom: int = 16) -> Graph:
    graph = import_model(net.model({"x": shape}, outputs)).graph
    normalise(graph, atom=atom, target=RK3588)
    return graph


def types(graph: Graph) -> list[str]:
    return [op.type for op in graph.ops]


def test_batch_normalization_disappears_in_the_convolution_before_it() -> None:
    net = Net()
    gamma, beta, mean, variance = ([2.0] * 8, [1.0] * 8, [0.5] * 8, [4.0 - 1e-5] * 8)
    out = net.add("BatchNormalization", net.conv("x", 16, 8), *(net.constant(v) for v in (gamma, beta, mean, variance)))
    graph = normalised(net, [out])
    assert types(graph) == ["Conv"]
    weight, bias = (net.constants[i] for i in (0, 1))
    from onnx import numpy_helper

    op = graph.ops[0]
    np.testing.assert_allclose(graph.constants[op.inputs[1]], numpy_helper.to_array(weight) * 1.0, rtol=1e-6)
    np.testing.assert_allclose(graph.constants[op.inputs[2]], numpy_helper.to_array(bias) - 0.5 + 1.0, rtol=1e-5)


@pytest.mark.parametrize("function", ["silu", "hardswish", "gelu", "mish"])
def test_functions_that_exporters_spell_out_are_recognised(function: str) -> None:
    net = Net()
    c = net.conv("x", 16, 16)
    if function == "silu":
        out = net.add("Mul", net.add("Sigmoid", c), c)
    elif function == "hardswish":
        clip = net.add("Clip", net.add("Add", c, net.constant(3.0)), net.constant(0.0), net.constant(6.0))
        out = net.add("Div", net.add("Mul", c, clip), net.constant(6.0))
    elif function == "gelu":
        erf = net.add("Erf", net.add("Div", c, net.constant(2**0.5)))
        out = net.add("Mul", net.add("Mul", c, net.add("Add", erf, net.constant(1.0))), net.constant(0.5))
    else:
        out = net.add("Mul", c, net.add("Tanh", net.add("Softplus", c)))
    graph = normalised(net, [out])
    assert types(graph) == ["Conv"]
    assert graph.ops[0].activation == Activation(function)


def test_a_residual_joins_the_convolution_that_runs_later() -> None:
    net = Net()
    a = net.conv("x", 16, 16)
    b = net.conv(a, 16, 16, 3, pads=[1] * 4)
    out = net.add("Relu", net.add("Add", a, b))
    graph = normalised(net, [out])
    assert types(graph) == ["Conv", "Conv"]
    assert graph.ops[1].inputs[3] == a
    assert graph.ops[1].get(Conv).post_relu


def test_a_value_that_two_read_is_not_fused_away() -> None:
    net = Net()
    a = net.conv("x", 16, 16)
    graph = normalised(net, [net.add("Relu", a), net.add("Tanh", a)])
    assert types(graph) == ["Conv", "Activation", "Activation"]


def test_a_flattened_map_and_a_gemm_are_one_convolution() -> None:
    net = Net()
    out = net.add("Gemm", net.add("Flatten", net.conv("x", 16, 8)), net.weights(10, 8 * 16), transB=1)
    graph = normalised(net, [out], (1, 16, 4, 4))
    assert [op.get(Conv).kernel for op in graph.ops] == [(1, 1), (4, 4)]


def test_parts_of_a_concatenation_that_are_no_atoms_are_picked_together() -> None:
    net = Net()
    out = net.add("Concat", net.conv("x", 16, 4), net.conv("x", 16, 20), axis=1)
    graph = normalised(net, [out])
    assert types(graph) == ["Conv", "Conv", "Concat", "Conv"]
    picks = graph.constants[graph.ops[3].inputs[1]].reshape(24, -1).argmax(1)
    assert picks.tolist() == [*range(4), *range(16, 36)]


def test_padding_moves_into_the_convolution() -> None:
    net = Net()
    padded = net.add("Pad", "x", net.constant([0, 0, 1, 2, 0, 0, 1, 2], np.int64))
    graph = normalised(net, [net.conv(padded, 16, 8, 3)])
    assert types(graph) == ["Conv"]
    assert graph.ops[0].get(Conv).pads == (1, 2, 1, 2)


def test_unknown_operators_are_named_together() -> None:
    net = Net()
    out = net.add("Bernoulli", net.add("Det", "x"))
    with pytest.raises(UnsupportedOperatorError, match=r"Det 'Det_t1'; Bernoulli 'Bernoulli_t2'. Cut .*--outputs x"):
        normalised(net, [out])


def test_forms_that_the_npu_lacks_are_the_cpus() -> None:
    net = Net()
    graph = normalised(net, [net.add("CumSum", net.add("Relu", "x"), net.constant(2, np.int64))])
    assert [op.operator for op in graph.ops if op.type == "Cpu"] == ["CumSum"]


def test_two_stages_can_be_compared() -> None:
    net = Net()
    graph = import_model(net.model({"x": (1, 16, 8, 8)}, [net.add("Relu", net.conv("x", 16, 8))])).graph
    before = copy.deepcopy(graph)
    assert diff_graphs(before, graph) == ""
    normalise(graph, atom=16, target=RK3588)
    assert "-  %t2[1,8,8,8] = Relu(%t1)" in diff_graphs(before, graph)


def test_a_layer_normalisation_that_is_spelled_out_is_recognised() -> None:
    net = Net()
    difference = net.add("Sub", "x", net.add("ReduceMean", "x", axes=[-1]))
    variance = net.add("ReduceMean", net.add("Pow", difference, net.constant(2.0)), axes=[-1])
    root = net.add("Sqrt", net.add("Add", variance, net.constant(1e-5)))
    unit = net.add("Div", difference, root)
    out = net.add("Add", net.add("Mul", unit, net.constant(np.ones(48))), net.constant(np.zeros(48)))
    graph = normalised(net, [out], (1, 20, 48))
    assert sum(op.type == "RootEstimate" for op in graph.ops) == 1
    assert sum(op.type == "Cpu" for op in graph.ops) == 2


@pytest.mark.parametrize("opset", [12, 13])
@pytest.mark.parametrize("axis", [1, 2, -1, None])
def test_softmax_of_old_models_flattens_what_is_behind_its_axis(opset: int, axis: int | None) -> None:
    net = Net()
    out = net.add("Softmax", "x", **({} if axis is None else {"axis": axis}))
    shape = (1, 6, 5, 4)
    compiled = compile_model(net.model({"x": shape}, [out], opset=opset))
    (value,) = feeds(shape, 1)[:1]
    wanted = dict(FloatModel(compiled.source, [out]).run({"x": value}))[out]
    with Session(compiled.model, "software") as session:
        found = session.run(value, layout="nchw")[out]
    assert np.abs(found.reshape(wanted.shape) - wanted).max() < 1e-3
