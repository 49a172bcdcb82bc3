"""SSDLite of TensorFlow's detection API as ONNX, from a graph of TensorFlow.js.

The picture enters behind the preprocessor, which is a bilinear scaling and 2 / 255 x - 1 (mean and scale are
options of the compiler), and the graph ends before the postprocessor: twelve convolutions, the boxes and scores of
six grids, which `openrknn.vision` decodes. So everything is on the NPU, each head has a scale of its own, and nothing
is transposed or concatenated.

TensorFlow has channels last, and has stored what was batch normalisation as a product and a sum: both go into the
convolution before them, also where the graph's optimiser has moved the sum behind a residual addition.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openrknn.models.errors import GettingError
from openrknn.models.tfjs import Array, GraphModel, Node

__all__ = ["INPUT", "SIZE", "to_onnx"]

INPUT = "Preprocessor/sub"
"""What the preprocessor gives: here the picture enters."""
SIZE = 300
_GRIDS = 6
_HEADS = ("BoxEncodingPredictor", "ClassPredictor")
_OPSET = 13
_FOLDED = ("Mul", "BiasAdd", "FusedBatchNorm", "FusedBatchNormV3")
"""Operators that go into the convolution before them, whose result must have no other reader."""


@dataclass
class _Conv:
    """A convolution that may still take products and sums; `name` is set when it is written."""

    source: str
    weights: Array
    bias: Array
    stride: int
    group: int
    shape: tuple[int, int, int]
    pads: list[int]
    name: str = ""


@dataclass
class _Sum:
    """Two tensors; a constant behind it goes into its convolution."""

    parts: list[Any]
    shape: tuple[int, int, int]
    name: str = ""


@dataclass
class _Tensor:
    name: str
    shape: tuple[int, int, int]
    """Channels, rows, columns."""


_Value = _Conv | _Sum | _Tensor


@dataclass
class _Writer:
    graph: GraphModel
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    values: dict[str, _Value] = field(default_factory=dict)
    count: int = 0
    uses: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self.uses = Counter(name for node in self.graph.nodes.values() for name in node.inputs)

    def value(self, name: str) -> _Value:
        """What a node gives. Nodes are visited without recursion: a graph may be as deep as it likes."""
        waiting = [name]
        while waiting:
            node = self.graph.node(waiting[-1])
            missing = [one for one in self._tensors(node) if one not in self.values]
            if len(waiting) > len(self.graph.nodes):
                raise GettingError(f"the graph turns in a circle at {node.name!r:.80}")
            if missing:
                waiting += missing[:1]
                continue
            self.values[waiting.pop()] = self._convert(node)
        return self.values[name]

    def _tensors(self, node: Node) -> list[str]:
        return [] if node.name == INPUT else [name for name in node.inputs if self._constant(name) is None]

    def _constant(self, name: str) -> Array | None:
        return self.graph.weights.get(name)

    def _convert(self, node: Node) -> _Value:
        if node.name == INPUT:
            return _Tensor(INPUT, (3, SIZE, SIZE))
        constants = [one for one in (self._constant(name) for name in node.inputs) if one is not None]
        values = [self.values[name] for name in self._tensors(node)]
        if node.op in _FOLDED and any(self.uses[name] > 1 for name in self._tensors(node)):
            raise GettingError(f"what the node {node.name!r:.80} changes is used elsewhere too")
        match node.op, len(values), len(constants):
            case ("Conv2D" | "DepthwiseConv2dNative"), 1, 1:
                return self._conv(node, values[0], constants[0])
            case "Mul", 1, 1:
                return _scaled(values[0], constants[0], np.zeros(1), node)
            case ("Add" | "AddV2" | "BiasAdd"), 1, 1:
                return _scaled(values[0], np.ones(1), constants[0], node)
            case ("FusedBatchNorm" | "FusedBatchNormV3"), 1, 4:
                gamma, beta, mean, variance = (one.astype(np.float64) for one in constants)
                factor = gamma / np.sqrt(variance + node.number("epsilon", 1e-3))
                return _scaled(values[0], factor, beta - mean * factor, node)
            case ("AddN" | "Add" | "AddV2"), 2, 0:
                return _Sum(values, values[0].shape)
            case "Relu6", 1, 0:
                return self._clip(node, values[0])
        raise GettingError(
            f"the node {node.name!r:.80} is {node.op} of {len(values)} tensors and {len(constants)} constants, which a "
            "network of this family does not have"
        )

    def _conv(self, node: Node, value: _Value, weights: Array) -> _Conv:
        channels, rows, columns = value.shape
        strides, dilations = node.integers("strides"), node.integers("dilations")
        if weights.ndim != 4 or len(strides) != 4 or strides[1] != strides[2] or strides[1] < 1:
            raise GettingError(f"the convolution {node.name!r:.80} has weights {weights.shape} and strides {strides}")
        if node.text("padding") != "SAME" or node.text("data_format") not in ("", "NHWC") or set(dilations) - {1}:
            raise GettingError(f"the convolution {node.name!r:.80} has unexpected padding, layout or dilation")
        is_depthwise = node.op != "Conv2D"
        height, width, inner, outer = weights.shape
        if inner != channels:
            raise GettingError(f"the convolution {node.name!r:.80} takes {inner} channels and gets {channels}")
        if is_depthwise:
            turned = weights.transpose(2, 3, 0, 1).reshape(inner * outer, 1, height, width)
        else:
            turned = weights.transpose(3, 2, 0, 1)
        stride = strides[1]
        after = (-(-rows // stride), -(-columns // stride))
        pads = [max((out - 1) * stride + size - into, 0)
                for out, size, into in zip(after, (height, width), (rows, columns), strict=True)]  # fmt: skip
        # SAME puts the odd one behind.
        split = [pad // 2 for pad in pads] + [pad - pad // 2 for pad in pads]
        return _Conv(self.written(value), turned.astype(np.float64), np.zeros(len(turned)), stride,
                     channels if is_depthwise else 1, (len(turned), *after), split)  # fmt: skip

    def _clip(self, node: Node, value: _Value) -> _Tensor:
        from onnx import helper

        self.nodes.append(helper.make_node("Clip", [self.written(value), "zero", "six"], [node.name], name=node.name))
        return _Tensor(node.name, value.shape)

    def written(self, value: _Value, name: str = "") -> str:
        """The name of a value in the graph; what was held back is written now."""
        from onnx import helper, numpy_helper

        if value.name:
            return value.name
        self.count += 1
        value.name = name or f"tensor_{self.count}"
        if isinstance(value, _Sum):
            parts = [self.written(part) for part in value.parts]
            self.nodes.append(helper.make_node("Add", parts, [value.name], name=value.name))
        elif isinstance(value, _Conv):
            names = [f"{value.name}/weights", f"{value.name}/bias"]
            for key, array in zip(names, (value.weights, value.bias), strict=True):
                self.constants.append(numpy_helper.from_array(array.astype(np.float32), key))
            kernel = list(value.weights.shape[2:])
            self.nodes.append(helper.make_node(
                "Conv", [value.source, *names], [value.name], name=value.name, group=value.group, kernel_shape=kernel,
                pads=value.pads, strides=[value.stride, value.stride],
            ))  # fmt: skip
        return value.name


def _scaled(value: _Value, factor: Array, term: Array, node: Node) -> _Value:
    """`factor * value + term`, in the convolution that made the value."""
    target: Any = value
    if isinstance(value, _Sum) and np.all(factor == 1):
        target = next((part for part in value.parts if isinstance(part, _Conv) and not part.name), value)
    if not isinstance(target, _Conv) or target.name or factor.size not in (1, len(target.bias)):
        raise GettingError(f"the node {node.name!r:.80} changes a tensor that is not fresh from a convolution")
    factor = factor.astype(np.float64).reshape(-1)
    target.weights = target.weights * factor.reshape(-1, 1, 1, 1)
    target.bias = target.bias * factor + term.astype(np.float64).reshape(-1)
    return value


def to_onnx(graph: GraphModel) -> Any:
    """The network as an ONNX model: `[1, 3, 300, 300]` from -1 to 1, places and scores of the six grids."""
    from onnx import TensorProto, helper, numpy_helper

    writer = _Writer(graph)
    outputs = []
    for grid in range(_GRIDS):
        for head in _HEADS:
            value = writer.value(f"BoxPredictor_{grid}/{head}/BiasAdd")
            name = writer.written(value, f"{'place' if head == _HEADS[0] else 'score'}_{grid}")
            outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, *value.shape)))
    for name, number in (("zero", 0.0), ("six", 6.0)):
        writer.constants.append(numpy_helper.from_array(np.array(number, np.float32), name))
    picture = helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, (1, 3, SIZE, SIZE))
    body = helper.make_graph(writer.nodes, "ssd", [picture], outputs, writer.constants)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
