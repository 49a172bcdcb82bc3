"""IF and WHILE: the subgraphs that they name become graphs inside ONNX's If and Loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from openrknn.compiler.errors import ModelError
from openrknn.compiler.importer.formats.tflite.context import Context, Rule
from openrknn.compiler.importer.formats.tflite.schema import Operator

_DEEPEST = 6


def _run(context: Context, op: Operator, number: int, values: Sequence[str]) -> tuple[Context, list[str]]:
    """A subgraph with these values as its inputs: what it writes, and the names of its results."""
    if not 0 < number < len(context.subgraphs):
        raise ModelError(f"{context.name}: {op.place} names subgraph {number}, there are {len(context.subgraphs)}")
    if context.depth >= _DEEPEST:
        raise context.unsupported(op, f"its subgraphs hold each other over {_DEEPEST} deep")
    graph = context.subgraphs[number]
    if len(graph.inputs) != len(values):
        raise ModelError(f"{context.name}: {op.place} gives subgraph {number} {len(values)} values; it is damaged")
    inner = context.inside(graph)
    for index, value in zip(graph.inputs, values, strict=True):
        inner.name_value(index, value)
    context.write(inner, graph)
    return inner, [inner.node("Identity", [inner.value(index)]) for index in graph.outputs]


def _body(context: Context, inner: Context, inputs: Sequence[Any], outputs: Sequence[Any]) -> Any:
    return context.onnx.helper.make_graph(
        inner.nodes, context.fresh("body"), list(inputs), list(outputs), inner.initializers
    )


def _info(context: Context, name: str, index: int, inner: Context | None = None) -> Any:
    tensor = (inner or context).tensor(index)
    shape = None if tensor.is_open else list(tensor.shape)
    return context.onnx.helper.make_tensor_value_info(name, context.type_of(tensor), shape)


def _if(context: Context, op: Operator) -> None:
    values = [context.value(index) for index in op.inputs[1:]]
    bodies = []
    for slot in (0, 1):
        number = op.options.number(slot)
        inner, names = _run(context, op, number, values)
        graph = context.subgraphs[number]
        infos = [_info(context, name, index, inner) for name, index in zip(names, graph.outputs, strict=True)]
        bodies.append(_body(context, inner, [], infos))
    condition = context.value(context.operand(op, 0))
    made = context.many("If", [condition], len(op.outputs), then_branch=bodies[0], else_branch=bodies[1])
    for number, name in enumerate(made):
        context.put(op, name, number=number)


def _while(context: Context, op: Operator) -> None:
    """Loop asks before the first round and after each; TFLite's condition is a subgraph of its own."""
    ask, work = op.options.number(0), op.options.number(1)
    start = [context.node("Identity", [context.value(index)]) for index in op.inputs]
    first, (begin,) = _one(context, op, ask, start)
    context.nodes.extend(first.nodes)
    context.initializers.extend(first.initializers)
    carried = [context.fresh("carried") for _ in op.inputs]
    inner, results = _run(context, op, work, carried)
    if len(results) != len(op.inputs) or len(op.outputs) != len(op.inputs):
        raise ModelError(f"{context.name}: {op.place} carries {len(op.inputs)} values, and gets {len(results)}")
    again, (onward,) = _one(context, op, ask, results)
    inner.nodes.extend(again.nodes)
    inner.initializers.extend(again.initializers)
    helper, proto = context.onnx.helper, context.onnx.TensorProto
    round_, asked = context.fresh("round"), context.fresh("asked")
    inputs = [
        helper.make_tensor_value_info(round_, proto.INT64, []), helper.make_tensor_value_info(asked, proto.BOOL, []),
        *(_info(context, name, index) for name, index in zip(carried, op.inputs, strict=True)),
    ]  # fmt: skip
    ends = [(onward, None), *zip(results, context.subgraphs[work].outputs, strict=True)]
    infos = [
        helper.make_tensor_value_info(name, proto.BOOL, []) if index is None else _info(context, name, index, inner)
        for name, index in ends
    ]
    made = context.many("Loop", ["", begin, *start], len(start), body=_body(context, inner, inputs, infos))
    for number, name in enumerate(made):
        context.put(op, name, number=number)


def _one(context: Context, op: Operator, number: int, values: Sequence[str]) -> tuple[Context, list[str]]:
    """The condition, as a single truth."""
    inner, names = _run(context, op, number, values)
    if len(names) != 1:
        raise ModelError(f"{context.name}: {op.place} asks subgraph {number}, which gives {len(names)} values")
    shape = inner.new(np.zeros(0, np.int64), "shape")
    return inner, [inner.node("Reshape", [names[0], shape])]


RULES: dict[str, Rule] = {"IF": _if, "WHILE": _while}
