"""Operators of two operands: which combinations of shapes the DPU can do."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.forms import Binary
from openrknn.compiler.identity import POINT
from openrknn.compiler.ir import Graph, Op, Value
from openrknn.compiler.normalise.common import replace_op
from openrknn.compiler.operators import ARITHMETIC

_FLOAT_METHODS = {kind: "add" if kind == "Sum" else kind.lower() for kind in ARITHMETIC}
_METHODS = {kind: method for kind, method in _FLOAT_METHODS.items() if method != "div"}
"""The DPU divides real numbers only."""


def normalise_binary(graph: Graph, *, is_float: bool = False) -> None:
    """Add, Sub, Mul, Max, Min with a second operand of the same shape, or one number per channel."""
    for op in list(graph.ops):
        if op.type in _METHODS:
            _many(graph, op)
    methods = _FLOAT_METHODS if is_float else _METHODS
    for op in list(graph.ops):
        if op.type in methods and len(op.inputs) == 2:
            _two(graph, op, methods[op.type])


def _many(graph: Graph, op: Op) -> None:
    """More than two operands: one after the other."""
    if len(op.inputs) <= 2 or op.type == "Sub":
        return
    steps = []
    left = op.inputs[0]
    for number, right in enumerate(op.inputs[1:], start=1):
        is_last = number == len(op.inputs) - 1
        shape = np.broadcast_shapes(graph.shape(left), graph.shape(right))
        target = op.output if is_last else graph.add_value(f"{op.output}_part", shape)
        steps.append(Op(op.type, f"{op.name}_{number}", [left, right], [target], {}, (op.name,)))
        left = target
    replace_op(graph, op, *steps)


def _two(graph: Graph, op: Op, method: str) -> None:
    out = Value("", graph.shape(op.output)).cube
    left, right = op.inputs
    if len(graph.activations(op)) == 0 or graph.shape(op.output)[:1] != (1,) or len(graph.shape(op.output)) > 4:
        return
    if (_cube(graph, left, op) != out or left in graph.constants) and method not in {"sub", "div"}:
        left, right = right, left
    if left in graph.constants or _cube(graph, left, op) != out:
        op.attributes["reason"] = "both operands are broadcast, or a constant comes first"
        return
    other = _cube(graph, right, op)
    if other == out:
        kind = "pixel"
        if right in graph.constants and graph.constants[right].ndim != 4:
            right = graph.add_constant(f"{right}_cube", graph.constants[right].reshape(1, *out))
    elif other == (out[0], 1, 1):
        kind = "channel"
    elif right in graph.constants and graph.constants[right].size == 1:
        number = np.full((1, out[0], 1, 1), graph.constants[right].reshape(-1)[0])
        right, kind = graph.add_constant(f"{right}_channels", number), "channel"
    elif right not in graph.constants and other == (1, 1, 1):
        right, kind = _spread(graph, op, right, out[0], (1, out[0], 1, 1)), "channel"
    elif right not in graph.constants and other == (1, *out[1:]):
        right, kind = _spread(graph, op, right, out[0]), "pixel"
    elif right in graph.constants and other is not None:
        full = np.broadcast_to(graph.constants[right], graph.shape(op.output)).reshape(1, *out)
        right, kind = graph.add_constant(f"{right}_full", np.ascontiguousarray(full)), "pixel"
    else:
        op.attributes["reason"] = f"operands of {graph.shape(left)} and {graph.shape(right)}"
        return
    op.become("Binary", Binary(method, kind), [left, right])


def _cube(graph: Graph, name: str, op: Op) -> tuple[int, int, int] | None:
    """Channels, height and width of an operand once it has as many dimensions as the result."""
    shape, rank = graph.shape(name), len(graph.shape(op.output))
    if len(shape) > rank:
        return None
    return Value("", (1,) * (rank - len(shape)) + tuple(shape)).cube


def _spread(graph: Graph, op: Op, name: str, channels: int, shape: tuple[int, ...] = ()) -> str:
    """One channel copied to all: a 1x1 convolution with ones."""
    shape = shape or graph.shape(op.output)
    target = graph.add_derived(f"{op.output}_spread", shape, name)
    weight = graph.add_constant(f"{target}_ones", np.ones((channels, 1, 1, 1)))
    bias = graph.add_constant(f"{target}_zero", np.zeros(channels))
    made = Op("Conv", target, [name, weight, bias], [target], {}, (op.name,), POINT, "Expand")
    graph.ops.insert(graph.ops.index(op), made)
    return target
