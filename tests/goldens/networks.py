"""The networks of the golden files: our own, drawn with `onnx.helper` and filled with seeded random weights."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

INDEX = "_index"
"""Ends the names of outputs that hold whole numbers."""

Array = npt.NDArray[Any]
Shape = Sequence[int | str]


class Net:
    """A small ONNX graph under construction; the weights depend on the name alone."""

    def __init__(self, name: str, opset: int = 13) -> None:
        self.name = name
        self.opset = opset
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._constants: list[onnx.TensorProto] = []

    def input(self, name: str, shape: Shape) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return name

    def output(self, source: str, name: str, shape: Shape, kind: int = TensorProto.FLOAT) -> None:
        self._nodes.append(helper.make_node("Identity", [source], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, kind, list(shape)))

    def constant(self, value: Array) -> str:
        name = f"const{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(value, name))
        return name

    def weight(self, *shape: int, spread: float = 0.2) -> str:
        return self.constant(self.random.normal(0, spread, shape).astype(np.float32))

    def op(self, kind: str, *sources: str, **attributes: Any) -> str:
        result = f"{kind.lower()}{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(sources), [result], name=result, **attributes))
        return result

    def result(self, kind: str, sources: Sequence[str], shapes: Mapping[str, Shape | None], **attributes: Any) -> None:
        """An operator whose outputs are the network's; one without a shape has no user."""
        self._nodes.append(helper.make_node(kind, list(sources), list(shapes), **attributes))
        for name, shape in shapes.items():
            if shape is not None:
                code = TensorProto.INT64 if name.endswith(INDEX) else TensorProto.FLOAT
                self._outputs.append(helper.make_tensor_value_info(name, code, list(shape)))

    def conv(self, source: str, channels_in: int, channels_out: int, kernel: int, **attributes: Any) -> str:
        group = int(attributes.get("group", 1))
        weight = self.weight(channels_out, channels_in // group, kernel, kernel)
        margin = kernel // 2
        attributes = {"kernel_shape": [kernel] * 2, "pads": [margin] * 4} | attributes
        return self.op("Conv", source, weight, self.weight(channels_out), **attributes)

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 7
        onnx.checker.check_model(model)
        return model


# --------------------------------------------------------------------------------------------------
# The networks


def image() -> onnx.ModelProto:
    """One convolution on a three-channel image: the input converter of the NPU."""
    net = Net("image")
    x = net.input("image", [1, 3, 16, 16])
    y = net.op("Relu", net.conv(x, 3, 16, 3))
    net.output(y, "features", [1, 16, 16, 16])
    return net.model()


def conv() -> onnx.ModelProto:
    """The plainest case: one 3x3 convolution, 8 to 12 channels, 7x5 pixels (nothing is aligned)."""
    net = Net("conv")
    x = net.input("x", [1, 8, 7, 5])
    net.output(net.conv(x, 8, 12, 3), "y", [1, 12, 7, 5])
    return net.model()


def residual() -> onnx.ModelProto:
    """A tiny backbone: convolution, depth-wise, residual add, max pool, two branches, concat."""
    net = Net("residual")
    x = net.input("image", [1, 3, 16, 16])
    stem = net.op("Relu", net.conv(x, 3, 16, 3, strides=[2, 2]))
    deep = net.op("Relu", net.conv(stem, 16, 16, 3, group=16))
    added = net.op("Add", net.conv(deep, 16, 16, 1), stem)
    pooled = net.op("MaxPool", added, kernel_shape=[2, 2], strides=[2, 2])
    left, right = net.conv(pooled, 16, 8, 1), net.conv(pooled, 16, 24, 3)
    net.output(net.op("Concat", left, right, axis=1), "features", [1, 32, 4, 4])
    return net.model()


def projection() -> onnx.ModelProto:
    """A residual block whose shortcut is a convolution too: a sum of two convolutions, of which one must be stored."""
    net = Net("projection")
    x = net.input("x", [1, 8, 16, 16])
    first = net.op("Relu", net.conv(x, 8, 16, 3, pads=[1, 1, 1, 1]))
    inner = net.op("Relu", net.conv(first, 16, 32, 3, pads=[1, 1, 1, 1], strides=[2, 2]))
    main = net.conv(inner, 32, 32, 3, pads=[1, 1, 1, 1])
    added = net.op("Relu", net.op("Add", main, net.conv(first, 16, 32, 1, strides=[2, 2])))
    net.output(net.conv(added, 32, 16, 3, pads=[1, 1, 1, 1]), "y", [1, 16, 8, 8])
    return net.model()


def silu() -> onnx.ModelProto:
    """Convolution followed by x * sigmoid(x), which the NPU does with its lookup table."""
    net = Net("silu")
    x = net.input("x", [1, 16, 8, 8])
    c = net.conv(x, 16, 16, 1)
    net.output(net.op("Mul", c, net.op("Sigmoid", c)), "y", [1, 16, 8, 8])
    return net.model()


def sigmoid() -> onnx.ModelProto:
    """A lookup table alone."""
    net = Net("sigmoid")
    x = net.input("x", [1, 16, 8, 8])
    net.output(net.op("Sigmoid", x), "y", [1, 16, 8, 8])
    return net.model()


def cpu_sin() -> onnx.ModelProto:
    """An operator the NPU does not have, between two it has."""
    net = Net("cpu_sin")
    x = net.input("x", [1, 16, 8, 8])
    wave = net.op("Sin", net.conv(x, 16, 16, 1))
    net.output(net.conv(wave, 16, 8, 1), "y", [1, 8, 8, 8])
    return net.model()


def _many(net: Net) -> None:
    """Operators that only the CPU has, each with an output of its own; some leave an optional output away."""
    x = net.input("x", [1, 8, 6, 10])
    size = [1, 8, 6, 10]

    def numbers(*values: int) -> str:
        return net.constant(np.array(values, np.int64))

    grown = net.op("Exp", x)
    net.result("Div", [x, grown], {"quotient": size})
    net.result("Pow", [grown, net.constant(np.array([0.75], np.float32))], {"power": size})
    net.result("Erf", [x], {"error": size})
    positive = net.op("Greater", x, net.constant(np.zeros((1, 1, 1, 1), np.float32)))
    net.result("Where", [positive, x, grown], {"chosen": size})
    starts, ends, axes, steps = numbers(0, 1), numbers(6, 9), numbers(2, 3), numbers(2, 2)
    net.result("Slice", [x, starts, ends, axes, steps], {"cut": [1, 8, 3, 4]})
    net.result("Split", [x, numbers(3, 5)], {"left": None, "right": [1, 5, 6, 10]}, axis=1)
    net.result("TopK", [x, numbers(4)], {"best": [1, 8, 6, 4], f"unwanted{INDEX}": None}, axis=3)
    net.result("TopK", [x, numbers(2)], {"unwanted": None, f"least{INDEX}": [1, 8, 2, 10]}, axis=2, largest=0)
    net.result("Gather", [x, numbers(5, 0, 2)], {"gathered": [1, 8, 3, 10]}, axis=2)
    net.result("Pad", [x, numbers(0, 0, 1, 2, 0, 0, 2, 1)], {"mirrored": [1, 8, 9, 13]}, mode="reflect")
    for mode in ("linear", "cubic", "nearest"):
        larger = numbers(1, 8, 9, 13)
        net.result("Resize", [x, "", "", larger], {mode: [1, 8, 9, 13]}, mode=mode)
    net.result("LRN", [x], {"calmed": size}, size=3, alpha=0.1)
    net.result(
        "MaxPool", [x], {"peak": [1, 8, 3, 5], f"peak{INDEX}": [1, 8, 3, 5]}, kernel_shape=[2, 2], strides=[2, 2]
    )
    net.result("ReduceLogSumExp", [x], {"soft": [1, 1, 6, 10]}, axes=[1])


def cpu_many() -> onnx.ModelProto:
    """Operators that only the CPU has."""
    net = Net("cpu_many")
    _many(net)
    return net.model()


def cpu_common() -> onnx.ModelProto:
    """Operators that the vendor's runtime 1.5.2 has on the CPU too, without those that it gets wrong.

    Few of them: with more parameter tables the converter mixes up the tables' types, and its runtime crashes.
    """
    net = Net("cpu_common")
    x, z = net.input("x", [1, 8, 6, 10]), net.input("z", [1, 8, 6, 10])
    size = [1, 8, 6, 10]

    def numbers(*values: int) -> str:
        return net.constant(np.array(values, np.int64))

    net.result("Div", [x, z], {"quotient": size})
    net.result("Pow", [x, net.constant(np.array([2], np.float32))], {"power": size})
    net.result("Sub", [x, z], {"difference": size})
    net.result("Max", [x, z], {"larger": size})
    net.result("Cos", [x], {"cosine": size})
    net.result("Slice", [x, numbers(0, 1), numbers(6, 9), numbers(2, 3), numbers(2, 2)], {"cut": [1, 8, 3, 4]})
    net.result("Gather", [x, numbers(5, 0, 2)], {"gathered": [1, 8, 3, 10]}, axis=2)
    net.result("Pad", [x, numbers(0, 0, 1, 2, 0, 0, 2, 1)], {"mirrored": [1, 8, 9, 13]}, mode="reflect")
    net.result("LRN", [x], {"calmed": size}, size=3, alpha=0.1)
    return net.model()


def cpu_grid() -> onnx.ModelProto:
    """Pixels at places that a second input names."""
    net = Net("cpu_grid", opset=16)
    x, grid = net.input("x", [1, 8, 6, 10]), net.input("grid", [1, 5, 7, 2])
    net.result("GridSample", [x, grid], {"sampled": [1, 8, 5, 7]}, mode="bilinear", padding_mode="zeros")
    return net.model()


def cpu_recurrent() -> onnx.ModelProto:
    """Recurrent layers on the CPU, whose attributes lie in a parameter table alone."""
    net = Net("cpu_recurrent")
    x = net.input("x", [5, 1, 4])
    weights = [net.weight(2, 24, 4), net.weight(2, 24, 6), net.weight(2, 48)]
    states: dict[str, Shape | None] = {"both": [5, 2, 1, 6], "hidden": [2, 1, 6], "cell": [2, 1, 6]}
    net.result("LSTM", [x, *weights], states, hidden_size=6, direction="bidirectional")
    weights = [net.weight(1, 18, 4), net.weight(1, 18, 6), net.weight(1, 36)]
    gated: dict[str, Shape | None] = {"gated": [5, 1, 1, 6], "last": [1, 1, 6]}
    net.result("GRU", [x, *weights], gated, hidden_size=6, linear_before_reset=1)
    return net.model()


def gru() -> onnx.ModelProto:
    """A recurrent layer on the NPU: the CPU brings its states from rows of lanes to the output."""
    net = Net("gru")
    x = net.input("x", [2, 1, 16])
    weights = [net.weight(1, 48, 16), net.weight(1, 48, 16), net.weight(1, 96)]
    states: dict[str, Shape | None] = {"states": [2, 1, 1, 16], "last": [1, 1, 16]}
    net.result("GRU", [x, *weights], states, hidden_size=16, linear_before_reset=1)
    return net.model()


def length() -> onnx.ModelProto:
    """A square root on the NPU: Newton's method with divisions whose data say int16 and are fp16."""
    net = Net("length")
    x = net.input("x", [1, 8, 6, 10])
    net.output(net.op("ReduceL2", x, axes=[1]), "y", [1, 1, 6, 10])
    return net.model()


def cpu_argmax() -> onnx.ModelProto:
    """A CPU operator at the end, with an integer output, beside a plain output."""
    net = Net("cpu_argmax")
    x = net.input("x", [1, 16, 8, 8])
    scores = net.conv(x, 16, 10, 1)
    net.output(scores, "scores", [1, 10, 8, 8])
    net.output(net.op("ArgMax", scores, axis=1, keepdims=1), "classes", [1, 1, 8, 8], TensorProto.INT64)
    return net.model()


def two_inputs() -> onnx.ModelProto:
    """Two inputs of different kinds: an image and a feature map."""
    net = Net("two_inputs")
    picture, features = net.input("picture", [1, 3, 8, 8]), net.input("features", [1, 16, 8, 8])
    net.output(net.op("Add", net.conv(picture, 3, 16, 3), features), "y", [1, 16, 8, 8])
    return net.model()


def two_outputs() -> onnx.ModelProto:
    """Two outputs that are ready at different times."""
    net = Net("two_outputs")
    x = net.input("x", [1, 16, 8, 8])
    early = net.conv(x, 16, 8, 1)
    late = net.conv(net.op("Relu", early), 8, 24, 3, strides=[2, 2])
    net.output(early, "early", [1, 8, 8, 8])
    net.output(late, "late", [1, 24, 4, 4])
    return net.model()


def dynamic() -> onnx.ModelProto:
    """Height and width are free; the file holds one graph for each size it was built for."""
    net = Net("dynamic")
    x = net.input("image", [1, 3, "height", "width"])
    y = net.conv(net.op("Relu", net.conv(x, 3, 8, 3)), 8, 8, 1)
    net.output(y, "features", [1, 8, "height", "width"])
    return net.model()


def softmax() -> onnx.ModelProto:
    net = Net("softmax")
    x = net.input("x", [1, 16, 4, 4])
    net.output(net.op("Softmax", x, axis=1), "y", [1, 16, 4, 4])
    return net.model()


def transpose() -> onnx.ModelProto:
    net = Net("transpose")
    x = net.input("x", [1, 16, 6, 8])
    net.output(net.op("Transpose", x, perm=[0, 2, 3, 1]), "y", [1, 6, 8, 16])
    return net.model()


def matmul() -> onnx.ModelProto:
    """Both operands come at run time."""
    net = Net("matmul")
    a, b = net.input("a", [1, 1, 16, 32]), net.input("b", [1, 1, 32, 16])
    net.output(net.op("MatMul", a, b), "y", [1, 1, 16, 16])
    return net.model()


def gemm() -> onnx.ModelProto:
    """A classifier head: global average pool and a dense layer."""
    net = Net("gemm")
    x = net.input("x", [1, 32, 4, 4])
    flat = net.op("Flatten", net.op("GlobalAveragePool", x), axis=1)
    net.output(net.op("Gemm", flat, net.weight(10, 32), net.weight(10), transB=1), "y", [1, 10])
    return net.model()


def layer_norm() -> onnx.ModelProto:
    net = Net("layer_norm", opset=17)
    x = net.input("x", [1, 16, 32])
    gain = net.constant(1 + net.random.normal(0, 0.1, 32).astype(np.float32))
    net.output(net.op("LayerNormalization", x, gain, net.weight(32), axis=-1, epsilon=1e-5), "y", [1, 16, 32])
    return net.model()


def nearest() -> onnx.ModelProto:
    net = Net("nearest")
    x = net.input("x", [1, 16, 4, 4])
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    options = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    net.output(net.op("Resize", x, "", scales, **options), "y", [1, 16, 8, 8])
    return net.model()


def bilinear() -> onnx.ModelProto:
    net = Net("bilinear")
    x = net.input("x", [1, 16, 4, 4])
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    options = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    net.output(net.op("Resize", x, "", scales, **options), "y", [1, 16, 8, 8])
    return net.model()


def reshaped_rows() -> onnx.ModelProto:
    """A Reshape between two convolutions whose planes (63 pixels) are no whole atoms: packed output in runs."""
    net = Net("reshaped_rows")
    x = net.input("x", [1, 8, 9, 7])
    plane = net.op("Conv", x, net.weight(8, 8, 1, 1), net.weight(8), kernel_shape=[1, 1])
    turned = net.op("Reshape", plane, net.constant(np.array([1, 8, 21, 3], np.int64)))
    net.output(net.op("Conv", turned, net.weight(8, 8, 1, 1), net.weight(8), kernel_shape=[1, 1]), "y", [1, 8, 21, 3])
    return net.model()


def depthwise40() -> onnx.ModelProto:
    """Channels that are no multiple of RK3576's group of 32."""
    net = Net("depthwise40")
    x = net.input("x", [1, 40, 6, 7])
    options = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": 40}
    net.output(net.op("Conv", x, net.weight(40, 1, 3, 3), net.weight(40), **options), "y", [1, 40, 6, 7])
    return net.model()


def deconv() -> onnx.ModelProto:
    net = Net("deconv")
    x = net.input("x", [1, 16, 4, 4])
    weight, bias = net.weight(16, 8, 2, 2), net.weight(8)
    up = net.op("ConvTranspose", x, weight, bias, kernel_shape=[2, 2], strides=[2, 2])
    net.output(up, "y", [1, 8, 8, 8])
    return net.model()


def deconv3() -> onnx.ModelProto:
    """Inputs three apart, which the NPU of RK3588 does not spread: the CPU puts zeros between them."""
    net = Net("deconv3")
    x = net.input("x", [1, 16, 4, 5])
    weight, bias = net.weight(16, 8, 5, 5), net.weight(8)
    up = net.op("ConvTranspose", x, weight, bias, kernel_shape=[5, 5], strides=[3, 3], pads=[1, 2, 0, 1])
    net.output(up, "y", [1, 8, 13, 14])
    return net.model()


def one_kernel() -> onnx.ModelProto:
    """A dense transposed convolution with one output channel: one zero point for all weights."""
    net = Net("one_kernel")
    x = net.input("x", [1, 17, 4, 4])
    weight, bias = net.weight(17, 1, 4, 4), net.weight(1)
    up = net.op("ConvTranspose", x, weight, bias, kernel_shape=[4, 4], strides=[2, 2], pads=[1, 1, 0, 0])
    net.output(up, "y", [1, 1, 9, 9])
    return net.model()


def square_root() -> onnx.ModelProto:
    net = Net("square_root")
    x = net.input("x", [1, 24, 5, 6])
    net.output(net.op("Sqrt", net.op("Abs", x)), "y", [1, 24, 5, 6])
    return net.model()


def group_conv() -> onnx.ModelProto:
    net = Net("group_conv")
    x = net.input("x", [1, 16, 8, 8])
    net.output(net.conv(x, 16, 16, 3, group=2), "y", [1, 16, 8, 8])
    return net.model()


def average_pool() -> onnx.ModelProto:
    net = Net("average_pool")
    x = net.input("x", [1, 16, 8, 8])
    net.output(net.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]), "y", [1, 16, 4, 4])
    return net.model()


def single() -> onnx.ModelProto:
    """One output channel: the converter has no per-channel numbers to store, and puts the zero point elsewhere."""
    net = Net("single")
    x = net.input("x", [1, 16, 8, 8])
    net.output(net.conv(x, 16, 1, 3), "y", [1, 1, 8, 8])
    return net.model()


def activations() -> onnx.ModelProto:
    """Every activation that the converter fuses into a convolution through a lookup table, and a leaky ReLU."""
    net = Net("activations")
    x = net.input("x", [1, 16, 4, 4])

    def branch(kind: str, **attributes: Any) -> None:
        c = net.conv(x, 16, 8, 1)
        net.output(net.op(kind, c, **attributes), kind.lower(), [1, 8, 4, 4])

    for kind in ("Tanh", "Sigmoid", "Softplus", "Elu", "HardSigmoid"):
        branch(kind)
    branch("LeakyRelu", alpha=0.1)
    c = net.conv(x, 16, 8, 1)
    net.output(net.op("Mul", c, net.op("Tanh", net.op("Softplus", c))), "mish", [1, 8, 4, 4])
    c = net.conv(x, 16, 8, 1)
    error = net.op("Erf", net.op("Div", c, net.constant(np.array(2**0.5, np.float32))))
    half = net.op("Mul", c, net.constant(np.array(0.5, np.float32)))
    net.output(net.op("Mul", half, net.op("Add", error, net.constant(np.array(1, np.float32)))), "gelu", [1, 8, 4, 4])
    return net.model()


def dense() -> onnx.ModelProto:
    """A wide matrix product with constant weights: large enough for the 4-bit weight formats."""
    net = Net("dense")
    x = net.input("x", [1, 8, 64])
    net.output(net.op("MatMul", x, net.weight(64, 64)), "y", [1, 8, 64])
    return net.model()


def pruned() -> onnx.ModelProto:
    """Convolutions whose weights are worth compressing: most of them small, then most of them zero."""
    net = Net("pruned")

    def conv(source: str, channels_in: int, channels_out: int, kernel: int, kept: float) -> str:
        shape = (channels_out, channels_in, kernel, kernel)
        values = net.random.laplace(0, 0.02, shape) * (net.random.random(shape) < kept)
        values[:, 0, 0, 0], values[:, 1, 0, 0] = 0.5, -0.5  # every kernel has its zero point near 0
        weight = net.constant(values.astype(np.float32))
        margin = kernel // 2
        return net.op("Conv", source, weight, kernel_shape=[kernel] * 2, pads=[margin] * 4)

    x = net.input("x", [1, 24, 6, 5])
    hidden = net.op("Relu", conv(x, 24, 38, 3, 1.0))
    net.output(conv(hidden, 38, 18, 3, 0.1), "y", [1, 18, 6, 5])
    return net.model()
