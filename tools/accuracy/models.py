"""Small models of normalisations, reductions and softmax, as operators and written out as exporters do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

__all__ = ["CASES", "Case", "build"]

Shape = tuple[int, ...]
ROWS, WIDE, MAPS, VECTOR = (1, 24, 384), (1, 9, 50), (1, 24, 20, 28), (1, 200)


class _Net:
    """Nodes one after the other."""

    def __init__(self, opset: int) -> None:
        self.opset, self.nodes, self.constants = opset, [], []  # type: int, list[Any], list[Any]
        self.random = np.random.default_rng(0)

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"{kind}_{name}", **attributes))
        return name

    def number(self, array: Any, dtype: Any = np.float32) -> str:
        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def reduce(self, kind: str, source: str, *axes: int, keep: int = 1) -> str:
        if self.opset >= 18:
            return self.add(kind, source, self.number(axes, np.int64), keepdims=keep)
        if kind == "ReduceSum":
            return self.add(kind, source, self.number(axes, np.int64), keepdims=keep)
        return self.add(kind, source, axes=list(axes), keepdims=keep)

    def gamma(self, size: int) -> str:
        return self.number(self.random.normal(1, 0.2, size))

    def beta(self, size: int) -> str:
        return self.number(self.random.normal(0, 0.2, size))


Maker = Callable[[_Net, Shape], str]


def _layer_norm(net: _Net, shape: Shape) -> str:
    return net.add("LayerNormalization", "x", net.gamma(shape[-1]), net.beta(shape[-1]), axis=-1)


def _layer_norm_parts(net: _Net, shape: Shape) -> str:
    d = net.add("Sub", "x", net.reduce("ReduceMean", "x", -1))
    v = net.reduce("ReduceMean", net.add("Pow", d, net.number(2.0)), -1)
    y = net.add("Div", d, net.add("Sqrt", net.add("Add", v, net.number(1e-5))))
    return net.add("Add", net.add("Mul", y, net.gamma(shape[-1])), net.beta(shape[-1]))


def _deviation_norm(net: _Net, shape: Shape) -> str:
    """(x - mean) / (std + eps): the epsilon is outside of the root."""
    d = net.add("Sub", "x", net.reduce("ReduceMean", "x", -1))
    v = net.reduce("ReduceMean", net.add("Mul", d, d), -1)
    return net.add("Div", d, net.add("Add", net.add("Sqrt", v), net.number(1e-6)))


def _rms_norm(net: _Net, shape: Shape) -> str:
    v = net.reduce("ReduceMean", net.add("Pow", "x", net.number(2.0)), -1)
    r = net.add("Div", net.number(1.0), net.add("Sqrt", net.add("Add", v, net.number(1e-5))))
    return net.add("Mul", net.add("Mul", "x", r), net.gamma(shape[-1]))


def _rms_operator(net: _Net, shape: Shape) -> str:
    return net.add("RMSNormalization", "x", net.gamma(shape[-1]), axis=-1, epsilon=1e-5)


def _instance_norm(net: _Net, shape: Shape) -> str:
    return net.add("InstanceNormalization", "x", net.gamma(shape[1]), net.beta(shape[1]))


def _instance_norm_parts(net: _Net, shape: Shape) -> str:
    d = net.add("Sub", "x", net.reduce("ReduceMean", "x", 2, 3))
    v = net.reduce("ReduceMean", net.add("Mul", d, d), 2, 3)
    return net.add("Div", d, net.add("Sqrt", net.add("Add", v, net.number(1e-5))))


def _group_norm(net: _Net, shape: Shape) -> str:
    return net.add("GroupNormalization", "x", net.gamma(shape[1]), net.beta(shape[1]), num_groups=4)


def _mean_variance(net: _Net, shape: Shape) -> str:
    return net.add("MeanVarianceNormalization", "x", axes=[0, 2, 3])


def _unit(axis: int) -> Maker:
    return lambda net, shape: net.add("LpNormalization", "x", axis=axis, p=2)


def _unit_parts(axis: int) -> Maker:
    """As torch.nn.functional.normalize is exported."""

    def made(net: _Net, shape: Shape) -> str:
        length = net.reduce("ReduceL2", "x", axis)
        clipped = net.add("Clip", length, net.number(1e-12))
        return net.add("Div", "x", net.add("Expand", clipped, net.number(shape, np.int64)))

    return made


def _reduce(kind: str, *axes: int) -> Maker:
    return lambda net, shape: net.reduce(kind, "x", *axes)


def _variance(*axes: int) -> Maker:
    def made(net: _Net, shape: Shape) -> str:
        d = net.add("Sub", "x", net.reduce("ReduceMean", "x", *axes))
        return net.reduce("ReduceMean", net.add("Mul", d, d), *axes)

    return made


def _deviation(*axes: int) -> Maker:
    return lambda net, shape: net.add("Sqrt", _variance(*axes)(net, shape))


def _softmax(net: _Net, shape: Shape) -> str:
    """Between two convolutions, so that it is the NPU's."""
    copy = net.number(np.eye(shape[1])[:, :, None, None])
    return net.add("Conv", net.add("Softmax", net.add("Conv", "x", copy), axis=1), copy)


def _log_softmax(net: _Net, shape: Shape) -> str:
    return net.add("LogSoftmax", "x", axis=-1)


def _attention(net: _Net, shape: Shape) -> str:
    turned = net.add("Transpose", "x", perm=[0, 2, 1])
    scores = net.add("Mul", net.add("MatMul", "x", turned), net.number(shape[-1] ** -0.5))
    return net.add("MatMul", net.add("Softmax", scores, axis=-1), "x")


def _cosine(net: _Net, shape: Shape) -> str:
    """Of x and of x reversed, as torch.nn.functional.cosine_similarity is exported."""
    other = net.add("Slice", "x", *(net.number([v], np.int64) for v in (-1, -10000, 1, -1)))
    dot = net.reduce("ReduceSum", net.add("Mul", "x", other), -1)
    lengths = [net.add("Max", net.reduce("ReduceL2", name, -1), net.number(1e-8)) for name in ("x", other)]
    return net.add("Div", dot, net.add("Mul", *lengths))


class Case:
    """A model, and its input: the shape, its mean, and the largest deviation that fp16 has all numbers for."""

    def __init__(
        self, make: Maker, shape: Shape, *, opset: int = 17, shift: float = 0.0, largest: float = 300.0
    ) -> None:
        self.make, self.shape, self.opset, self.shift, self.largest = make, shape, opset, shift, largest


CASES: dict[str, Case] = {
    "LayerNorm [24, 384]": Case(_layer_norm, ROWS),
    "LayerNorm [9, 50]": Case(_layer_norm, WIDE),
    "LayerNorm, written out": Case(_layer_norm_parts, ROWS),
    "LayerNorm, std + eps": Case(_deviation_norm, ROWS),
    "RMSNorm, written out": Case(_rms_norm, ROWS),
    "RMSNorm [9, 50]": Case(_rms_operator, WIDE, opset=23),
    "InstanceNorm": Case(_instance_norm, MAPS),
    "InstanceNorm, written out": Case(_instance_norm_parts, MAPS),
    "GroupNorm": Case(_group_norm, MAPS, opset=21),
    "MeanVarianceNormalization": Case(_mean_variance, MAPS),
    "LpNormalization, channels": Case(_unit(1), MAPS),
    "LpNormalization, rows": Case(_unit(-1), ROWS),
    "normalize, rows": Case(_unit_parts(-1), ROWS),
    "normalize, channels": Case(_unit_parts(1), MAPS),
    "cosine similarity": Case(_cosine, ROWS),
    "ReduceL2, rows": Case(_reduce("ReduceL2", -1), ROWS),
    "ReduceL2, channels": Case(_reduce("ReduceL2", 1), MAPS),
    "ReduceL2, pixels": Case(_reduce("ReduceL2", 2, 3), MAPS),
    "ReduceSumSquare, rows": Case(_reduce("ReduceSumSquare", -1), ROWS),
    "ReduceSumSquare, pixels": Case(_reduce("ReduceSumSquare", 2, 3), MAPS),
    "variance, pixels": Case(_variance(2, 3), MAPS),
    "deviation, pixels": Case(_deviation(2, 3), MAPS),
    "deviation, rows": Case(_deviation(-1), ROWS),
    "Softmax [24]": Case(_softmax, MAPS),
    "Softmax [129]": Case(_softmax, (1, 129, 2, 9)),
    "Softmax [129] - 3000": Case(_softmax, (1, 129, 2, 9), shift=-3000.0),
    "Softmax [257] + 30000": Case(_softmax, (1, 257, 2, 9), shift=30000.0),
    "LogSoftmax": Case(_log_softmax, WIDE),
    "attention": Case(_attention, (1, 40, 32), largest=10.0),
}


def build(case: Case) -> Any:
    """The ONNX model; its input is x."""
    net = _Net(case.opset)
    output = case.make(net, case.shape)
    graph = helper.make_graph(
        net.nodes, "net", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, list(case.shape))],
        [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)], net.constants,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=8)
