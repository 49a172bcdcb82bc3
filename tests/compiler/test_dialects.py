"""What exporters write, in their own words: each compiles, runs on the software NPU and is close to ONNX in float."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from openrknn.compiler import compile_model
from openrknn.compiler.errors import CompileError
from openrknn.compiler.verify import verify
from tests.compiler.nets import Array, Net

pytestmark = pytest.mark.unchecked

PICTURE = (1, 3, 16, 16)


class Words(Net):
    """A net whose nodes may have several outputs, graphs inside, and a domain."""

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def one(self, value: int) -> str:
        """A Constant node, as PyTorch writes numbers."""
        name = f"c{len(self.nodes)}"
        tensor = numpy_helper.from_array(np.array(value, np.int64))
        self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def several(self, count: int, kind: str, *inputs: str, **attributes: Any) -> list[str]:
        names = [f"s{len(self.nodes)}_{number}" for number in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def same(self, source: str, inputs: int, outputs: int, kernel: int = 3, **attributes: Any) -> str:
        return self.conv(source, inputs, outputs, kernel, pads=[kernel // 2] * 4, **attributes)

    def tokens(self) -> str:
        """[1, 16, 32]."""
        patches = self.conv("x", 3, 32, 4, strides=[4, 4])
        return self.add("Transpose", self.add("Reshape", patches, self.ints(1, 32, 16)), perm=[0, 2, 1])


def flatten_by_shape(net: Words) -> str:
    mean = net.add("GlobalAveragePool", net.same("x", 3, 16))
    size = net.add("Unsqueeze", net.add("Gather", net.add("Shape", mean), net.one(0)), net.ints(0))
    flat = net.add("Reshape", mean, net.add("Concat", size, net.ints(-1), axis=0))
    return net.add("Gemm", flat, net.weights(10, 16), net.constant(np.zeros(10)), transB=1)


def tanh_gelu(net: Words) -> str:
    x = net.same("x", 3, 16)
    cube = net.add("Mul", net.add("Pow", x, net.constant(3.0)), net.constant(0.044715))
    tanh = net.add("Tanh", net.add("Mul", net.add("Add", x, cube), net.constant(0.7978845608)))
    return net.add("Mul", net.add("Mul", x, net.constant(0.5)), net.add("Add", tanh, net.constant(1.0)))


def attention(net: Words) -> str:
    tokens = net.tokens()
    together = net.add("MatMul", tokens, net.weights(32, 96))
    heads = net.add("Transpose", net.add("Reshape", together, net.ints(1, 16, 3, 4, 8)), perm=[2, 0, 3, 1, 4])
    q, k, v = (net.add("Gather", heads, net.one(number), axis=0) for number in range(3))
    weights = net.add("Softmax", net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2])), axis=-1)
    joined = net.add("Transpose", net.add("MatMul", weights, v), perm=[0, 2, 1, 3])
    return net.add("MatMul", net.add("Reshape", joined, net.ints(1, 16, 32)), net.weights(32, 8))


def einsum(net: Words) -> str:
    x = net.add("Reshape", net.same("x", 3, 8), net.ints(1, 8, 256))
    return net.add("Einsum", x, x, equation="bct,bdt->bcd")


def nhwc(net: Words) -> str:
    first = net.add("Relu", net.same(net.add("Reshape", "x", net.ints(1, 3, 16, 16)), 3, 16))
    turned = net.add("Add", net.add("Transpose", first, perm=[0, 2, 3, 1]), net.constant(np.ones(16)))
    again = net.add("Concat", turned, turned, axis=3)
    return net.same(net.add("Transpose", again, perm=[0, 3, 1, 2]), 32, 8)


def yolo_tail(net: Words) -> str:
    maps = [net.add("Reshape", net.same("x", 3, 24, strides=[s, s]), net.ints(1, 24, -1)) for s in (2, 4)]
    boxes, scores = net.several(2, "Split", net.add("Concat", *maps, axis=2), net.ints(16, 8), axis=1)
    soft = net.add("Softmax", net.add("Transpose", net.add("Reshape", boxes, net.ints(1, 4, 4, 80)), perm=[0, 2, 1, 3]),
                   axis=1)  # fmt: skip
    sides = net.add("Conv", soft, net.constant(np.arange(4).reshape(1, 4, 1, 1)), kernel_shape=[1, 1])
    sides = net.add("Reshape", sides, net.ints(1, 4, 80))
    near, far = (net.add("Slice", sides, net.ints(at), net.ints(at + 2), net.ints(1)) for at in (0, 2))
    corners = net.constant(net.random.uniform(0, 16, (1, 2, 80)))
    both = net.add("Concat", net.add("Sub", corners, near), net.add("Add", corners, far), axis=1)
    return net.add("Concat", net.add("Mul", both, net.constant(8.0)), net.add("Sigmoid", scores), axis=1)


def branch(net: Words) -> str:
    mean = net.add("GlobalAveragePool", net.same("x", 3, 16))
    unknown = helper.make_tensor_value_info("r", TensorProto.FLOAT, None)
    yes = helper.make_graph([helper.make_node("Relu", [mean], ["r"])], "yes", [], [unknown])
    unknown.name = "i"
    no = helper.make_graph([helper.make_node("Identity", [mean], ["i"])], "no", [], [unknown])
    asked = net.add("Equal", net.add("Gather", net.add("Shape", mean), net.one(3)), net.one(1))
    return net.add("If", asked, then_branch=yes, else_branch=no)


def integer_convolution(net: Words) -> str:
    q, scale, zero = net.several(3, "DynamicQuantizeLinear", "x")
    weight = net.constant(net.random.integers(0, 255, (16, 3, 3, 3)), np.uint8)
    sums = net.add("ConvInteger", q, weight, zero, net.constant(128, np.uint8), kernel_shape=[3, 3])
    return net.add("Mul", net.add("Cast", sums, to=TensorProto.FLOAT), net.add("Mul", scale, net.constant(0.002)))


def lstm(net: Words) -> str:
    steps = net.add("Transpose", net.add("Reshape", net.same("x", 3, 16), net.ints(1, 256, 16)), perm=[2, 0, 1])
    weights = (net.weights(2, 64, 256), net.weights(2, 64, 16), net.constant(net.random.normal(0, 0.1, (2, 128))))
    out, _, _ = net.several(3, "LSTM", steps, *weights, hidden_size=16, direction="bidirectional")
    return net.add("Reshape", out, net.ints(1, 16, 32))


def gru(net: Words) -> str:
    steps = net.add("Transpose", net.add("Reshape", net.same("x", 3, 8), net.ints(1, 128, 16)), perm=[2, 0, 1])
    weights = (net.weights(1, 48, 128), net.weights(1, 48, 16), net.constant(net.random.normal(0, 0.1, (1, 96))))
    _, last = net.several(2, "GRU", steps, *weights, hidden_size=16, linear_before_reset=1)
    return net.add("Reshape", last, net.ints(1, 16))


def _after(kind: str, *extra: Any, channels: int = 16, **attributes: Any) -> Callable[[Words], str]:
    def build(net: Words) -> str:
        operands = [net.constant(value, np.int64 if isinstance(value, list) else np.float32) for value in extra]
        return net.add(kind, net.same("x", 3, channels), *operands, **attributes)

    return build


DIALECTS: dict[str, tuple[int, Callable[[Words], str]]] = {
    "flatten by shape": (13, flatten_by_shape),
    "gelu by tanh": (14, tanh_gelu),
    "attention": (17, attention),
    "einsum": (13, einsum),
    "channels last": (13, nhwc),
    "yolo tail": (17, yolo_tail),
    "branch": (13, branch),
    "integer convolution": (13, integer_convolution),
    "lstm": (14, lstm),
    "gru": (14, gru),
    "class token": (17, lambda net: net.add(
        "MatMul", net.add("Concat", net.constant(net.random.normal(0, 1, (1, 1, 32))), net.tokens(), axis=1),
        net.weights(32, 8))),
    "patches of 8": (17, lambda net: net.conv("x", 3, 32, 8, strides=[8, 8])),
    "norm of channels": (17, lambda net: net.add(
        "LayerNormalization", net.add("Transpose", net.same("x", 3, 32), perm=[0, 2, 3, 1]),
        net.constant(np.ones(32)), net.constant(np.zeros(32)), axis=-1)),
    "softmax of old": (11, _after("Softmax", axis=1)),
    "slices of old": (9, _after("Slice", axes=[1, 2], starts=[3, 1], ends=[9, 15])),
    "clip of old": (9, _after("Clip", min=0.0, max=6.0)),
    "instance norm": (13, lambda net: net.add(
        "InstanceNormalization", net.same("x", 3, 16), net.constant(np.ones(16)), net.constant(np.zeros(16)))),
    "reflected pad": (13, _after("Pad", [0, 0, 1, 1, 0, 0, 1, 2], mode="reflect")),
    "repeated edge": (13, _after("Pad", [0, 0, 2, 0, 0, 0, 0, 1], mode="edge")),
    "padded channels": (13, _after("Pad", [0, 4, 0, 0, 0, 12, 0, 0])),
    "every second pixel": (13, lambda net: net.add(
        "Resize", net.same("x", 3, 16), "", net.constant([1, 1, 0.5, 0.5]), mode="nearest",
        coordinate_transformation_mode="asymmetric", nearest_mode="floor")),
    "stacked rows": (13, lambda net: net.add("Concat", a := net.same("x", 3, 16), net.add("Relu", a), axis=2)),
    "gathered channels": (13, _after("Gather", [5, 0, 11], axis=1)),
    "tile": (13, lambda net: net.add("Tile", net.add("GlobalAveragePool", net.same("x", 3, 16)), net.ints(1, 1, 6, 5))),
    "expand": (13, lambda net: net.add("Mul", a := net.same("x", 3, 16), net.add(
        "Expand", net.add("Sigmoid", net.add("GlobalAveragePool", a)), net.add("Shape", a)))),
    "unit length": (13, lambda net: net.add(
        "LpNormalization", net.add("Flatten", net.add("GlobalAveragePool", net.same("x", 3, 16))), axis=1)),
    "mean of everything": (13, _after("ReduceMean", keepdims=0)),
    "mean of channels": (18, _after("ReduceMean", [1], keepdims=1)),
    "sum of pixels": (13, _after("ReduceSum", [2, 3], keepdims=0)),
    "selu": (13, _after("Selu")),
    "five dimensions": (13, lambda net: net.add("Reshape", net.add(
        "Mul", net.add("Reshape", net.same("x", 3, 16), net.ints(1, 16, 1, 16, 16)),
        net.constant(net.random.normal(1, 0.3, (16, 1, 1, 1)))), net.ints(1, 16, 16, 16))),
    "soft shrink": (13, _after("Shrink", lambd=0.5, bias=0.5)),
    "softsign": (13, _after("Softsign")),
    "three operands": (13, lambda net: net.add("Sum", a := net.same("x", 3, 16), net.add("Relu", a), "x2")),
    "long stride": (13, lambda net: net.add(
        "Conv", net.add("Reshape", "x", net.ints(1, 1, 768)), net.weights(16, 1, 64), strides=[32], kernel_shape=[64])),
    "many outputs": (13, lambda net: net.add(
        "Gemm", net.add("Flatten", net.add("GlobalAveragePool", net.same("x", 3, 16))), net.weights(9000, 16),
        transB=1)),
}  # fmt: skip
INT8 = {"attention", "yolo tail", "class token", "instance norm", "unit length", "three operands", "flatten by shape",
        "channels last", "many outputs", "integer convolution"}  # fmt: skip


def _model(name: str) -> onnx.ModelProto:
    opset, build = DIALECTS[name]
    net = Words()
    if name == "three operands":
        net.nodes.append(helper.make_node("Conv", ["x", net.weights(16, 3, 1, 1)], ["x2"]))
    out = build(net)
    made = net.model({"x": PICTURE}, [out], opset=opset)
    made.graph.output[0].type.tensor_type.ClearField("shape")  # as exporters leave it, where they do not know
    return made


def _feeds(count: int = 2) -> list[Array]:
    random = np.random.default_rng(5)
    return [random.normal(0, 1, PICTURE).astype(np.float32) for _ in range(count)]


@pytest.mark.parametrize(
    ("name", "form"), [*((name, "fp16") for name in DIALECTS), *((name, "int8") for name in DIALECTS if name in INT8)]
)
def test_a_dialect(name: str, form: str) -> None:
    compiled = compile_model(_model(name), calibration=_feeds() if form == "int8" else None)
    (verdict,) = verify(compiled, [{"x": _feeds()[0]}])
    assert verdict.decibels > (24 if form == "int8" else 45), verdict


def test_half_precision_and_bytes_become_what_the_npu_has() -> None:
    net = Words()
    scaled = net.add("Div", net.add("Cast", "x", to=TensorProto.FLOAT16), net.constant(255.0, np.float16))
    weight = net.constant(net.random.normal(0, 0.2, (16, 3, 3, 3)), np.float16)
    model = net.model({"x": PICTURE}, [net.add("Conv", scaled, weight, kernel_shape=[3, 3])])
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    for entry in model.graph.node[0].attribute:
        entry.i = TensorProto.FLOAT16
    pixels = np.random.default_rng(1).integers(0, 256, PICTURE).astype(np.uint8)
    compiled = compile_model(model, calibration=[pixels])
    (verdict,) = verify(compiled)
    assert verdict.decibels > 30


def test_quantised_operators_keep_their_integers() -> None:
    net = Words()
    q = net.add("QuantizeLinear", "x", net.constant(0.03), net.constant(128, np.uint8))
    stored = net.random.integers(-127, 128, (16, 3, 3, 3))
    operands = (
        net.constant(0.03), net.constant(128, np.uint8), net.constant(stored, np.int8),
        net.constant(np.full(16, 0.002)), net.constant(np.zeros(16), np.int8),
        net.constant(0.02), net.constant(100, np.uint8), net.constant(net.random.integers(-99, 99, 16), np.int32),
    )  # fmt: skip
    y = net.add("QLinearConv", q, *operands, kernel_shape=[3, 3])
    out = net.add("DequantizeLinear", y, net.constant(0.02), net.constant(100, np.uint8))
    compiled = compile_model(net.model({"x": PICTURE}, [out], opset=13))
    assert compiled.format_name == "int8"
    (verdict,) = verify(compiled, [{"x": _feeds()[0]}])
    assert verdict.distance.largest_error < 0.021, verdict  # one step


def test_functions_of_the_model_are_written_out() -> None:
    net = Words()
    x = net.same("x", 3, 16)
    model = net.model({"x": PICTURE}, [x], opset=18)
    model.graph.node.append(helper.make_node("Swish", [x], ["out"], domain="mine"))
    model.graph.output[0].name = "out"
    body = [helper.make_node("Sigmoid", ["a"], ["s"]), helper.make_node("Mul", ["a", "s"], ["b"])]
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.functions.append(helper.make_function("mine", "Swish", ["a"], ["b"], body, [helper.make_opsetid("", 18)]))
    compiled = compile_model(model)
    assert len(compiled.lowering.program.steps) == 1, "a convolution with its SiLU"


def test_a_detector_is_cut_at_its_heads() -> None:
    model = _model("yolo tail")
    compiled = compile_model(model, outputs=["heads"])
    assert len(compiled.model.outputs) == 2
    assert all(spec.shape[1] == 24 for spec in compiled.model.outputs)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("NonMaxSuppression", "size is not known before the model runs: cut the model before it"),
        ("com.example.Magic", "is not an operator of ONNX but of 'com.example'"),
    ],
)
def test_what_cannot_be_done_says_what_to_do(kind: str, words: str) -> None:
    net = Words()
    x = net.same("x", 3, 4)
    inputs: dict[str, Any] = {"x": PICTURE}
    if kind == "NonMaxSuppression":
        boxes = net.add("Reshape", x, net.ints(1, 256, 4))
        out = net.add(kind, boxes, net.add("Transpose", boxes, perm=[0, 2, 1]))
    else:
        out = x
    model = net.model(inputs, [out])
    if "." in kind:
        model.opset_import.append(helper.make_opsetid("com.example", 1))
        model.graph.node.append(helper.make_node("Magic", [x], ["magic"], domain="com.example"))
        model.graph.output[0].name = "magic"
    with pytest.raises(CompileError, match=words):
        compile_model(model)
