"""Functions of one number and of two."""

from __future__ import annotations

import math

import numpy as np

from openrknn.compiler.importer.formats.tflite.context import Context, Rule
from openrknn.compiler.importer.formats.tflite.schema import Operator

_UNARY = {
    "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "ELU": "Elu", "EXP": "Exp", "FLOOR": "Floor", "HARD_SWISH": "HardSwish",
    "LOG": "Log", "LOGICAL_NOT": "Not", "LOGISTIC": "Sigmoid", "NEG": "Neg", "RELU": "Relu", "ROUND": "Round",
    "SIGN": "Sign", "SIN": "Sin", "SQRT": "Sqrt", "TANH": "Tanh",
}  # fmt: skip
_BINARY = {
    "ADD": "Add", "DIV": "Div", "MUL": "Mul", "SUB": "Sub", "MAXIMUM": "Max", "MINIMUM": "Min", "POW": "Pow",
    "LESS": "Less", "LESS_EQUAL": "LessOrEqual", "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual",
    "EQUAL": "Equal", "LOGICAL_AND": "And", "LOGICAL_OR": "Or",
}  # fmt: skip
_FUSED = {"ADD", "DIV", "MUL", "SUB"}
"""These may have an activation."""


def _unary(context: Context, op: Operator) -> None:
    nchw = context.nchw_of(op)
    source = context.value(context.operand(op, 0), nchw=nchw)
    context.put(op, context.node(_UNARY[op.kind], [source]), nchw=nchw)


def _pair(context: Context, op: Operator) -> tuple[list[str], bool]:
    nchw = context.nchw_of(op)
    rank = context.rank(op.outputs[0]) if op.outputs else 0
    wide = rank if nchw else 0
    return [context.value(context.operand(op, number), nchw=nchw, rank=wide) for number in (0, 1)], nchw


def _binary(context: Context, op: Operator) -> None:
    operands, nchw = _pair(context, op)
    made = context.node(_BINARY[op.kind], operands)
    if op.kind in _FUSED:
        made = context.activated(made, op.options.small(0), op)
    context.put(op, made, nchw=nchw)


def _not_equal(context: Context, op: Operator) -> None:
    operands, nchw = _pair(context, op)
    context.put(op, context.node("Not", [context.node("Equal", operands)]), nchw=nchw)


def _squared_difference(context: Context, op: Operator) -> None:
    operands, nchw = _pair(context, op)
    difference = context.node("Sub", operands)
    context.put(op, context.node("Mul", [difference, difference]), nchw=nchw)


def _floor_div(context: Context, op: Operator) -> None:
    operands, nchw = _pair(context, op)
    tensor = context.tensor(op.outputs[0])
    if np.dtype(tensor.dtype).kind in "iu" and not tensor.is_quantised:
        double = [context.node("Cast", [name], to=context.onnx.TensorProto.DOUBLE) for name in operands]
        floor = context.node("Floor", [context.node("Div", double)])
        made = context.node("Cast", [floor], to=context.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(tensor.dtype)))
    else:
        made = context.node("Floor", [context.node("Div", operands)])
    context.put(op, made, nchw=nchw)


def _floor_mod(context: Context, op: Operator) -> None:
    """The sign of the divisor, as in Python; ONNX has that for integers only."""
    operands, nchw = _pair(context, op)
    if np.dtype(context.tensor(op.outputs[0]).dtype).kind in "iu":
        made = context.node("Mod", operands, fmod=0)
    else:
        whole = context.node("Floor", [context.node("Div", operands)])
        made = context.node("Sub", [operands[0], context.node("Mul", [whole, operands[1]])])
    context.put(op, made, nchw=nchw)


def _square(context: Context, op: Operator) -> None:
    nchw = context.nchw_of(op)
    source = context.value(context.operand(op, 0), nchw=nchw)
    context.put(op, context.node("Mul", [source, source]), nchw=nchw)


def _rsqrt(context: Context, op: Operator) -> None:
    nchw = context.nchw_of(op)
    source = context.value(context.operand(op, 0), nchw=nchw)
    context.put(op, context.node("Pow", [source, context.new(np.float32(-0.5), "power")]), nchw=nchw)


def _clipped(low: float, high: float) -> Rule:
    def rule(context: Context, op: Operator) -> None:
        nchw = context.nchw_of(op)
        context.put(op, context.clip(context.value(context.operand(op, 0), nchw=nchw), low, high), nchw=nchw)

    return rule


def _leaky(context: Context, op: Operator) -> None:
    nchw = context.nchw_of(op)
    source = context.value(context.operand(op, 0), nchw=nchw)
    context.put(op, context.node("LeakyRelu", [source], alpha=op.options.real(0)), nchw=nchw)


def _prelu(context: Context, op: Operator) -> None:
    operands, nchw = _pair(context, op)
    context.put(op, context.node("PRelu", operands), nchw=nchw)


def _gelu(context: Context, op: Operator) -> None:
    nchw = context.nchw_of(op)
    source = context.value(context.operand(op, 0), nchw=nchw)

    def number(value: float) -> str:
        return context.new(np.float32(value), "number")

    if op.options.small(0):
        cube = context.node("Mul", [context.node("Mul", [source, source]), source])
        inner = context.node("Add", [source, context.node("Mul", [cube, number(0.044715)])])
        gate = context.node("Tanh", [context.node("Mul", [inner, number(math.sqrt(2 / math.pi))])])
    else:
        gate = context.node("Erf", [context.node("Div", [source, number(math.sqrt(2))])])
    product = context.node("Mul", [source, context.node("Add", [gate, number(1.0)])])
    context.put(op, context.node("Mul", [product, number(0.5)]), nchw=nchw)


def _softmax(context: Context, op: Operator) -> None:
    index = context.operand(op, 0)
    nchw, rank = context.nchw_of(op), max(context.rank(index), 1)
    source = context.value(index, nchw=nchw)
    beta = op.options.real(0) if op.kind == "SOFTMAX" else 1.0
    if beta != 1.0:
        source = context.node("Mul", [source, context.new(np.float32(beta), "beta")])
    kind = "Softmax" if op.kind == "SOFTMAX" else "LogSoftmax"
    context.put(op, context.node(kind, [source], axis=1 if nchw else rank - 1), nchw=nchw)


def _select(context: Context, op: Operator) -> None:
    nchw = context.nchw_of(op)
    rank = context.rank(op.outputs[0])
    condition = context.operand(op, 0)
    operands = [context.value(context.operand(op, number), nchw=nchw, rank=rank if nchw else 0) for number in (1, 2)]
    if op.kind == "SELECT" and context.rank(condition) == 1 and rank > 1:  # whole rows are chosen
        first = context.reshape(context.value(condition), (-1, *([1] * (rank - 1))))
    else:
        first = context.value(condition, nchw=nchw, rank=rank if nchw else 0)
    context.put(op, context.node("Where", [first, *operands]), nchw=nchw)


def _add_n(context: Context, op: Operator) -> None:
    nchw = context.nchw_of(op)
    operands = [context.value(context.operand(op, number), nchw=nchw) for number in range(len(op.inputs))]
    context.put(op, context.node("Sum", operands), nchw=nchw)


RULES: dict[str, Rule] = {
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_BINARY, _binary),
    "NOT_EQUAL": _not_equal,
    "SQUARED_DIFFERENCE": _squared_difference,
    "FLOOR_DIV": _floor_div,
    "FLOOR_MOD": _floor_mod,
    "SQUARE": _square,
    "RSQRT": _rsqrt,
    "RELU6": _clipped(0.0, 6.0),
    "RELU_N1_TO_1": _clipped(-1.0, 1.0),
    "RELU_0_TO_1": _clipped(0.0, 1.0),
    "LEAKY_RELU": _leaky,
    "PRELU": _prelu,
    "GELU": _gelu,
    "SOFTMAX": _softmax,
    "LOG_SOFTMAX": _softmax,
    "SELECT": _select,
    "SELECT_V2": _select,
    "ADD_N": _add_n,
}
