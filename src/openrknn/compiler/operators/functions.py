"""Rows of the functions of one number: the formula of the NPU's table, or how others write it."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from openrknn.compiler.ir import Array
from openrknn.compiler.operators.row import Family, Inline, Npu, NpuFunction, Operator, Rows, Writer

_FLOAT = 1
"""Of AttributeProto."""


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def _erf(x: Array) -> Array:
    result: Array = np.vectorize(math.erf, otypes=[np.float64])(x)
    return result


def _attribute(node: Any, name: str, default: float) -> float:
    given = next((entry for entry in node.attribute if entry.name == name), None)
    return default if given is None else float(given.f if given.type == _FLOAT else given.i)


def _selu(writer: Writer, node: Any) -> None:
    """gamma * elu(x)."""
    gamma = _attribute(node, "gamma", 1.0507009873554805)
    inner = writer.add("Elu", node.input[0], alpha=_attribute(node, "alpha", 1.6732632423543772))
    writer.add("Mul", inner, writer.new(gamma), to=node.output[0])


def _celu(writer: Writer, node: Any) -> None:
    """alpha * elu(x / alpha)."""
    alpha = _attribute(node, "alpha", 1.0)
    if alpha == 1.0:
        writer.add("Elu", node.input[0], to=node.output[0], alpha=1.0)
        return
    inner = writer.add("Elu", writer.add("Mul", node.input[0], writer.new(1 / alpha)), alpha=1.0)
    writer.add("Mul", inner, writer.new(alpha), to=node.output[0])


def _shrink(writer: Writer, node: Any) -> None:
    """Soft shrinking: x - clip(x, -lambda, lambda), where bias and lambda are the same."""
    limit, bias = _attribute(node, "lambd", 0.5), _attribute(node, "bias", 0.0)
    if bias == limit:
        inner = writer.add("Clip", node.input[0], writer.new(-limit), writer.new(limit))
        writer.add("Sub", node.input[0], inner, to=node.output[0])


def _swish(writer: Writer, node: Any) -> None:
    """x * sigmoid(alpha * x)."""
    alpha = _attribute(node, "alpha", 1.702 if node.op_type == "QuickGelu" else 1.0)
    source = node.input[0]
    scaled = source if alpha == 1.0 else writer.add("Mul", source, writer.new(alpha))
    writer.add("Mul", source, writer.add("Sigmoid", scaled), to=node.output[0])


_F = NpuFunction
_unary = partial(Operator, family=Family.UNARY, rows=Rows.APART)
_function = partial(_unary, npu=Npu.FUNCTION)
_written = partial(_unary, npu=Npu.WRITTEN)
_cpu = partial(_unary, cpu=True)
_DIFFERENCE = "difference"

FUNCTION_ROWS = (
    _function("Abs", cpu=True, adjoint=_DIFFERENCE, function=_F("abs", lambda x, _: np.abs(x))),
    _cpu("Acos"),
    _cpu("Acosh"),
    _cpu("Asin"),
    _cpu("Asinh"),
    _cpu("Atan"),
    _cpu("Atanh"),
    _unary("BitwiseNot"),
    _cpu("Ceil"),
    _written("Celu", adjoint=_DIFFERENCE, write=_celu),
    _function("Clip", adjoint=_DIFFERENCE, function=_F("clip", fused="Clip"), inline=Inline.COMPUTED),
    _function("Cos", cpu=True, adjoint=_DIFFERENCE, function=_F("cos", lambda x, _: np.cos(x))),
    _cpu("Cosh"),
    _function(
        "Elu", adjoint=_DIFFERENCE,
        function=_F("elu", lambda x, a: np.where(x < 0, a["alpha"] * np.expm1(x), x), 8.0, (("alpha", 1.0),)),
    ),
    _function("Erf", cpu=True, adjoint=_DIFFERENCE, function=_F("erf", lambda x, _: _erf(x), 3.5)),
    _function("Exp", cpu=True, adjoint="exp", function=_F("exp", lambda x, _: np.exp(x))),
    _cpu("Floor"),
    _function(
        "Gelu", adjoint=_DIFFERENCE,
        function=_F("gelu", lambda x, _: x * 0.5 * (1 + _erf(x / math.sqrt(2))), 5.0, fused="ExGelu"),
    ),
    _function(
        "HardSigmoid", adjoint=_DIFFERENCE,
        function=_F("hardsigmoid", lambda x, a: np.clip(a["alpha"] * x + a["beta"], 0, 1), 6.0,
                    (("alpha", 0.2), ("beta", 0.5)), fused="HardSigmoid"),
    ),
    _function(
        "HardSwish", adjoint=_DIFFERENCE,
        function=_F("hardswish", lambda x, _: x * np.clip(x + 3, 0, 6) / 6, 3.0, fused="HardSwish"),
    ),
    _cpu("IsInf"),
    _cpu("IsNaN"),
    _function(
        "LeakyRelu", adjoint=_DIFFERENCE, function=_F("leaky", parameters=(("alpha", 0.01),), fused="LeakyRelu")
    ),
    _function("Log", cpu=True, adjoint="log", function=_F("log", lambda x, _: np.log(np.maximum(x, 1e-6)))),
    _function(
        "Mish", adjoint=_DIFFERENCE,
        function=_F("mish", lambda x, _: x * np.tanh(np.logaddexp(x, 0)), 8.0, gate=("Tanh", "Softplus"), fused="Mish"),
    ),
    Operator("Neg", Family.UNARY, Npu.TASK, cpu=True, rows=Rows.APART, adjoint=_DIFFERENCE),
    _cpu("Not"),
    _function(
        "Reciprocal", cpu=True, adjoint="reciprocal",
        function=_F("reciprocal", lambda x, _: 1 / np.where(np.abs(x) < 1e-6, np.copysign(1e-6, x), x)),
    ),
    _function("Relu", adjoint=_DIFFERENCE, function=_F("relu", fused="Relu")),
    _cpu("Round"),
    _written("Selu", adjoint=_DIFFERENCE, write=_selu),
    _written("Shrink", write=_shrink),
    _function("Sigmoid", adjoint="sigmoid", function=_F("sigmoid", lambda x, _: _sigmoid(x), 12.0, fused="Sigmoid")),
    _cpu("Sign"),
    _function("Sin", cpu=True, adjoint=_DIFFERENCE, function=_F("sin", lambda x, _: np.sin(x))),
    _cpu("Sinh"),
    _function("Softplus", adjoint=_DIFFERENCE, function=_F("softplus", lambda x, _: np.logaddexp(x, 0), 10.0)),
    _function("Softsign", adjoint=_DIFFERENCE, function=_F("softsign", lambda x, _: x / (1 + np.abs(x)))),
    _function("Sqrt", cpu=True, adjoint="sqrt", function=_F("sqrt", lambda x, _: np.sqrt(np.maximum(x, 0)))),
    _written(
        "Swish", adjoint=_DIFFERENCE, write=_swish,
        function=_F("silu", lambda x, _: x * _sigmoid(x), 10.0, gate=("Sigmoid",), fused="ExSwish"),
    ),
    _cpu("Tan"),
    _function("Tanh", adjoint=_DIFFERENCE, function=_F("tanh", lambda x, _: np.tanh(x), 6.0, fused="Tanh")),
    _written("ThresholdedRelu", adjoint=_DIFFERENCE, inline=Inline.ALWAYS),
)  # fmt: skip
"""Sigmoid and tanh are within half a unit of the table of their limits at their reach. A forget gate that stays at
0.9995 instead of 1 empties the cell of an LSTM within seconds (DTLN: 36 dB instead of 51).
"""
