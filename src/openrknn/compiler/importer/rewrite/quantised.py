"""Integer operators in the two forms that the later stages take: float, and float between QuantizeLinear pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openrknn.compiler.importer.rewrite.writer import Writer, attribute

_INTEGER = {"ConvInteger", "DequantizeLinear", "MatMulInteger"}


def _attributes(node: Any) -> dict[str, Any]:
    return {entry.name: attribute(node, entry.name) for entry in node.attribute}


def _dynamic(writer: Writer, node: Any) -> None:
    """Nothing: the NPU quantises in its own way, so the float numbers go on, with scale 1 and zero point 0."""
    readers = writer.facts.readers.get(node.output[0], [])
    is_inner = readers and all(reader.op_type in _INTEGER for reader in readers)
    if not is_inner or any(name in writer.facts.outputs for name in node.output):
        return
    writer.add("Identity", node.input[0], to=node.output[0])
    if len(node.output) > 1 and node.output[1]:
        writer.add("Identity", writer.new(1.0), to=node.output[1])
    if len(node.output) > 2 and node.output[2]:
        writer.add("Identity", writer.new(0.0), to=node.output[2])


def _integer(writer: Writer, node: Any) -> None:
    """Conv and MatMul in float: the weights minus their zero point."""
    maker = writer.facts.makers.get(node.input[0])
    if maker is not None and maker.op_type == "DynamicQuantizeLinear":
        return  # next round
    weight = writer.operand(node, 1)
    if weight is None:
        return
    zero = writer.operand(node, 3)
    shift = np.zeros((), np.float32) if zero is None else zero.astype(np.float32)
    if shift.size > 1:
        shift = shift.reshape((1, -1) if node.op_type == "MatMulInteger" else (-1, *[1] * (weight.ndim - 1)))
    real = weight.astype(np.float32) - (shift if shift.size > 1 else shift.reshape(()))
    kind = "Conv" if node.op_type == "ConvInteger" else "MatMul"
    writer.add(kind, node.input[0], writer.new(real), to=node.output[0], **_attributes(node))


def _plain_dynamic(writer: Writer, node: Any) -> None:
    """Numbers whose products are all cast to float at once: nothing else may depend on the integers."""
    for reader in writer.facts.readers.get(node.output[0], ()):
        if reader.op_type not in {"ConvInteger", "MatMulInteger"} or writer.operand(reader, 1) is None:
            return
        ends = writer.facts.readers.get(reader.output[0], [])
        if not ends or reader.output[0] in writer.facts.outputs or any(end.op_type != "Cast" for end in ends):
            return
    _dynamic(writer, node)


def _plain_integer(writer: Writer, node: Any) -> None:
    """A product of numbers that were left in float."""
    maker = writer.facts.makers.get(node.input[0])
    if maker is not None and maker.op_type == "Identity":
        _integer(writer, node)


def _real(writer: Writer, *operands: str, axis: int | None = None) -> str:
    """DequantizeLinear of (numbers, scale, zero point)."""
    if axis is None:
        return writer.add("DequantizeLinear", *operands)
    return writer.add("DequantizeLinear", *operands, axis=axis)


def _qlinear_conv(writer: Writer, node: Any) -> None:
    """Conv between DequantizeLinear and QuantizeLinear: the integers of the file are kept."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.input[:8]
    scales = [writer.constant(name) for name in (x_scale, w_scale)]
    if scales[0] is None or scales[1] is None:
        return
    operands = [_real(writer, x, x_scale, x_zero), _real(writer, w, w_scale, w_zero, axis=0)]
    bias = writer.operand(node, 8)
    if bias is not None:
        operands.append(writer.new(bias * scales[0].astype(np.float64) * scales[1].astype(np.float64)))
    made = writer.add("Conv", *operands, **_attributes(node))
    writer.add("QuantizeLinear", made, y_scale, y_zero, to=node.output[0])


def _qlinear_matmul(writer: Writer, node: Any) -> None:
    """MatMul between DequantizeLinear and QuantizeLinear."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input[:8]
    per_column = (writer.constant(b_scale) is not None) and writer.facts.constants[b_scale].size > 1
    left = _real(writer, a, a_scale, a_zero)
    right = _real(writer, b, b_scale, b_zero, axis=1 if per_column else None)
    writer.add("QuantizeLinear", writer.add("MatMul", left, right), y_scale, y_zero, to=node.output[0])


def _qlinear_two(writer: Writer, node: Any) -> None:
    """The float operator between DequantizeLinear and QuantizeLinear."""
    left, right = _real(writer, *node.input[0:3]), _real(writer, *node.input[3:6])
    made = writer.add(node.op_type.removeprefix("QLinear"), left, right)
    writer.add("QuantizeLinear", made, *node.input[6:8], to=node.output[0])


def _qlinear_one(writer: Writer, node: Any) -> None:
    """The float operator of one operand between DequantizeLinear and QuantizeLinear."""
    if int(attribute(node, "channels_last", 0)):
        return
    given = _attributes(node)
    given.pop("channels_last", None)
    given.pop("opset", None)
    made = writer.add(node.op_type.removeprefix("QLinear"), _real(writer, *node.input[0:3]), **given)
    writer.add("QuantizeLinear", made, *node.input[3:5], to=node.output[0])


def _qlinear_concat(writer: Writer, node: Any) -> None:
    """Concat between DequantizeLinear and QuantizeLinear."""
    # y scale, y zero point, then (numbers, scale, zero point) of each part
    parts = [_real(writer, *node.input[at : at + 3]) for at in range(2, len(node.input), 3)]
    writer.add("QuantizeLinear", writer.add("Concat", *parts, **_attributes(node)), *node.input[:2], to=node.output[0])


def _qgemm(writer: Writer, node: Any) -> None:
    """Gemm between DequantizeLinear and QuantizeLinear."""
    a, a_scale, a_zero, b, b_scale, b_zero = node.input[:6]
    scales = [writer.constant(name) for name in (a_scale, b_scale)]
    if scales[0] is None or scales[1] is None:
        return
    given = _attributes(node)
    axis = 0 if given.get("transB") else 1
    operands = [_real(writer, a, a_scale, a_zero), _real(writer, b, b_scale, b_zero, axis=axis)]
    bias = writer.operand(node, 6)
    if bias is not None:
        operands.append(writer.new(bias * scales[0].astype(np.float64) * scales[1].astype(np.float64)))
    last = len(node.input) > 8
    made = writer.add("Gemm", *operands, to="" if last else node.output[0], **given)
    if last:
        writer.add("QuantizeLinear", made, *node.input[7:9], to=node.output[0])


def _gathered(writer: Writer, node: Any) -> None:
    """Rows of a quantised table (an embedding whose weights alone are int8): rows of the float table."""
    maker = writer.facts.makers.get(node.input[0])
    scale = writer.constant(node.input[1])
    if maker is None or maker.op_type != "Gather" or writer.constant(maker.input[0]) is None:
        return
    if scale is None or scale.size != 1 or node.output[0] in writer.facts.outputs:
        return
    given = _attributes(maker)
    writer.add("Gather", _real(writer, maker.input[0], *node.input[1:]), maker.input[1], to=node.output[0], **given)


FLOAT_RULES: dict[str, Callable[[Writer, Any], None]] = {
    "ConvInteger": _plain_integer,
    "DynamicQuantizeLinear": _plain_dynamic,
    "MatMulInteger": _plain_integer,
}
"""Dynamically quantised layers in float, where the rest of the model stays ONNX."""

_ONE = ("Sigmoid", "LeakyRelu", "GlobalAveragePool", "AveragePool", "Softmax")

STATIC_RULES: dict[str, Callable[[Writer, Any], None]] = {
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
}
"""Layers between stored numbers, as float layers between quantisers."""

RULES: dict[str, Callable[[Writer, Any], None]] = {
    **STATIC_RULES,
    "ConvInteger": _integer,
    "DequantizeLinear": _gathered,
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _integer,
    "com.microsoft.QGemm": _qgemm,
    "com.microsoft.QLinearAdd": _qlinear_two,
    "com.microsoft.QLinearConcat": _qlinear_concat,
    "com.microsoft.QLinearMul": _qlinear_two,
    **{f"com.microsoft.QLinear{name}": _qlinear_one for name in _ONE},
}
