"""Functions and sums that are others in disguise, and those of ONNX Runtime's own operators."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from openrknn.compiler.importer.rewrite.frames import biased_norm
from openrknn.compiler.importer.rewrite.masks import added_mask, chosen_mask, no_nan
from openrknn.compiler.importer.rewrite.normalisation import cosine
from openrknn.compiler.importer.rewrite.reductions import variance
from openrknn.compiler.importer.rewrite.writer import Writer, attribute, rectangle
from openrknn.compiler.operators import WRITTEN

_MOST_DIMENSIONS = 4


def _gelu(writer: Writer, node: Any) -> None:
    """The bias, and the gelu as PyTorch spells it."""
    source = node.input[0]
    if len(node.input) > 1 and node.input[1]:
        source = writer.add("Add", source, node.input[1])
    inner = writer.add("Erf", writer.add("Div", source, writer.new(2**0.5)))
    product = writer.add("Mul", source, writer.add("Add", inner, writer.new(1.0)))
    writer.add("Mul", product, writer.new(0.5), to=node.output[0])


def _many(writer: Writer, node: Any) -> None:
    """More than two operands, one after the other."""
    kind = "Add" if node.op_type == "Sum" else node.op_type
    if len(node.input) == 1:
        writer.add("Identity", node.input[0], to=node.output[0])
        return
    if len(node.input) < 3:
        if node.op_type == "Sum" and len(node.input) == 2:
            writer.add("Add", *node.input, to=node.output[0])
        return
    total = node.input[0]
    for name in node.input[1:-1]:
        total = writer.add(kind, total, name)
    writer.add(kind, total, node.input[-1], to=node.output[0])


def _softplus(writer: Writer, node: Any) -> None:
    """Softplus, where it is log(1 + exp(x))."""
    plus = writer.facts.makers.get(node.input[0])
    if plus is None or plus.op_type != "Add":
        return
    for name, other in (plus.input, plus.input[::-1]):
        power, one = writer.facts.makers.get(name), writer.constant(other)
        is_one = one is not None and one.size == 1 and float(one.reshape(-1)[0]) == 1
        if power is not None and power.op_type == "Exp" and is_one:
            writer.add("Softplus", power.input[0], to=node.output[0])
            return


def _mean(writer: Writer, node: Any) -> None:
    """A sum, and a product with 1/n."""
    total = node.input[0]
    for name in node.input[1:]:
        total = writer.add("Add", total, name)
    writer.add("Mul", total, writer.new(1 / len(node.input)), to=node.output[0])


def _softmax(writer: Writer, node: Any) -> None:
    """Before opset 13 it goes over all dimensions from `axis` on."""
    shape = writer.shape(node.input[0])
    if shape is None:
        return
    if writer.facts.opset >= 13:
        if node.op_type == "LogSoftmax":
            _log_softmax(writer, node, int(attribute(node, "axis", -1)) % len(shape))
        return
    axis = int(attribute(node, "axis", 1)) % len(shape)
    last = max((at for at, size in enumerate(shape) if size > 1 and at >= axis), default=axis)
    if prod(shape[axis:last]) == 1 and last == len(shape) - 1:
        if node.op_type == "LogSoftmax":
            _log_softmax(writer, node, last)
        elif last != axis or attribute(node, "axis") is None:
            writer.add(node.op_type, node.input[0], to=node.output[0], axis=last)
        return
    if len(shape) == 2:
        return
    flat = writer.reshape(node.input[0], [prod(shape[:axis]), prod(shape[axis:])])
    writer.reshape(writer.add(node.op_type, flat, axis=1), shape, to=node.output[0])


def _log_softmax(writer: Writer, node: Any, axis: int) -> None:
    """x minus the logarithm of the sum of the exponentials, which the CPU takes: fp16 has no logarithms of 1e-8."""
    total = writer.mean(node.input[0], [axis], "ReduceLogSumExp")
    writer.add("Sub", node.input[0], total, to=node.output[0])


def _gemm(writer: Writer, node: Any) -> None:
    """alpha A B + beta C, where B or C is computed, or A is turned: MatMul, and what is left of the rest."""
    weight, summand = writer.constant(node.input[1]), node.input[2] if len(node.input) > 2 else ""
    is_plain = weight is not None and writer.constant(node.input[0]) is None and not int(attribute(node, "transA", 0))
    if is_plain and (not summand or writer.constant(summand) is not None):
        return
    sides = [writer.transpose(name, [1, 0]) if int(attribute(node, turn, 0)) else name
             for name, turn in zip(node.input[:2], ("transA", "transB"), strict=True)]  # fmt: skip
    alpha, beta = (float(attribute(node, name, 1.0)) for name in ("alpha", "beta"))
    made = writer.add("MatMul", *sides)
    if alpha != 1:
        made = writer.add("Mul", made, writer.new(alpha))
    if summand:
        other = summand if beta == 1 else writer.add("Mul", summand, writer.new(beta))
        made = writer.add("Add", made, other)
    writer.add("Identity", made, to=node.output[0])


def _arithmetic(writer: Writer, node: Any) -> None:
    """Constants per channel beyond four dimensions: in four; constant - x and constant / x: sums and products."""
    shape = writer.shape(node.output[0])
    if shape is not None and len(shape) > _MOST_DIMENSIONS:
        _flattened(writer, node, shape)
    elif node.op_type == "Add" and added_mask(writer, node):
        return
    elif node.op_type == "Mul":
        biased_norm(writer, node)
    elif node.op_type in {"Sub", "Div"}:
        variance(writer, node)
        cosine(writer, node)
        if not writer.is_done:
            _constant_first(writer, node)


def _flattened(writer: Writer, node: Any, shape: tuple[int, ...]) -> None:
    arrays = [writer.constant(name) for name in node.input]
    if shape[0] != 1 or sum(array is None for array in arrays) != 1:
        return
    at = 0 if arrays[0] is None else 1
    array = arrays[1 - at]
    if array is None or writer.shape(node.input[at]) != shape:
        return
    full = np.broadcast_to(array, shape).reshape(1, shape[1], -1)
    if not np.array_equal(full, np.broadcast_to(full[:, :, :1], full.shape)):
        _four(writer, node, at, array, shape)
        return
    cube = (1, shape[1], *rectangle(prod(shape[2:])))
    operands = [writer.reshape(node.input[at], cube), writer.new(full[:, :, :1, None])]
    writer.reshape(writer.add(node.op_type, *(operands if at == 0 else operands[::-1])), shape, to=node.output[0])


_MOST_NUMBERS = 1 << 22
"""Of a constant that is written out in full."""


def _four(writer: Writer, node: Any, at: int, array: Any, shape: tuple[int, ...]) -> None:
    """The masks of windows [1, windows, heads, T, T]: dimensions in the middle become one."""
    if prod(shape) > _MOST_NUMBERS or array.dtype.kind != "f":
        return
    four = (1, prod(shape[1:-2]), *shape[-2:])
    whole = writer.new(np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(four))
    operands = [writer.reshape(node.input[at], four), whole]
    writer.reshape(writer.add(node.op_type, *(operands if at == 0 else operands[::-1])), shape, to=node.output[0])


def _constant_first(writer: Writer, node: Any) -> None:
    """constant - x is x * -1 + constant, and constant / x is the reciprocal times it."""
    first, second = node.input
    array = writer.constant(first)
    if array is None or writer.constant(second) is not None or array.dtype.kind != "f":
        return
    if node.op_type == "Sub":
        if array.size == 1:
            return
        writer.add("Add", writer.add("Mul", second, writer.new(-1.0)), first, to=node.output[0])
        return
    if array.size == 1 and float(array.reshape(-1)[0]) == 1.0 and writer.shape(second) == writer.shape(node.output[0]):
        writer.add("Reciprocal", second, to=node.output[0])
        return
    writer.add("Mul", writer.add("Reciprocal", second), first, to=node.output[0])


def _fused_conv(writer: Writer, node: Any) -> None:
    """Conv, and the activation."""
    kept = {entry.name for entry in node.attribute} - {"activation", "activation_params"}
    plain = writer.add("Conv", *node.input[:3], **{name: attribute(node, name) for name in sorted(kept)})
    if len(node.input) > 3:
        plain = writer.add("Add", plain, node.input[3])
    kind = attribute(node, "activation", "")
    given = [float(value) for value in attribute(node, "activation_params", [])]
    names = {"LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta")}.get(kind, ())
    if kind == "Clip":
        writer.add("Clip", plain, *(writer.new(value) for value in given[:2]), to=node.output[0])
    elif kind:
        writer.add(kind, plain, to=node.output[0], **dict(zip(names, given, strict=False)))
    else:
        writer.add("Identity", plain, to=node.output[0])


def _power(writer: Writer, node: Any) -> None:
    """Whole powers and roots that need no table of their own."""
    exponent = writer.constant(node.input[1])
    if exponent is None or exponent.size != 1 or writer.constant(node.input[0]) is not None:
        return
    value = float(exponent.reshape(-1)[0])
    source, target = node.input[0], node.output[0]
    if writer.shape(source) != writer.shape(target):
        return
    if value == 1:
        writer.add("Identity", source, to=target)
    elif value == 2:
        writer.add("Mul", source, source, to=target)
    elif value == 3:
        writer.add("Mul", writer.add("Mul", source, source), source, to=target)
    elif value == 0.5:
        writer.add("Sqrt", source, to=target)
    elif value == -0.5:
        writer.add("Reciprocal", writer.add("Sqrt", source), to=target)
    elif value == -1:
        writer.add("Reciprocal", source, to=target)


def _leaky_where(writer: Writer, node: Any) -> None:
    """A leaky ReLU, where it is one spelled out: where(x > 0, x, a * x)."""
    makers = writer.facts.makers
    asked, yes, no = (makers.get(name) for name in node.input)
    x = node.input[1]
    del yes
    if asked is None or asked.op_type not in {"Greater", "GreaterOrEqual"} or asked.input[0] != x:
        return
    limit = writer.constant(asked.input[1])
    if limit is None or limit.size != 1 or float(limit.reshape(-1)[0]) != 0 or no is None or no.op_type != "Mul":
        return
    slope = next((writer.constant(name) for name in no.input if writer.constant(name) is not None), None)
    if x not in no.input or slope is None or slope.size != 1:
        return
    writer.add("LeakyRelu", x, to=node.output[0], alpha=float(np.asarray(slope).reshape(-1)[0]))


def _where(writer: Writer, node: Any) -> None:
    """A leaky ReLU, a mask that becomes a sum, or a guard against NaN that is not needed."""
    for rule in (_leaky_where, chosen_mask, no_nan):
        rule(writer, node)
        if writer.is_done:
            return


def _cast_like(writer: Writer, node: Any) -> None:
    """Nothing, where the type is a float's: everything is float here. Other types keep it, and are refused."""
    if writer.element_type(node.input[1]) in {"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"}:
        array = writer.constant(node.input[0])
        source = node.input[0] if array is None else writer.new(array)
        writer.add("Identity", source, to=node.output[0])


RULES: dict[str, Callable[[Writer, Any], None]] = {
    "Add": _arithmetic,
    "CastLike": _cast_like,
    "Div": _arithmetic,
    "Gemm": _gemm,
    "Log": _softplus,
    "Max": _many,
    "Mean": _mean,
    "Min": _many,
    "Pow": _power,
    "LogSoftmax": _softmax,
    "Softmax": _softmax,
    "Mul": _arithmetic,
    "Sub": _arithmetic,
    "Sum": _many,
    "Where": _where,
    "com.microsoft.BiasGelu": _gelu,
    "com.microsoft.FastGelu": _gelu,
    "com.microsoft.FusedConv": _fused_conv,
    "com.microsoft.Gelu": _gelu,
    "com.microsoft.QuickGelu": WRITTEN["Swish"],
    **WRITTEN,
}
