"""Rows of any rank as [1, T, C]: that is how projections and layer normalisations are known further on."""

from __future__ import annotations

from math import prod

import numpy as np

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import replace_op
from openrknn.compiler.operators import ARITHMETIC

_TWO = ARITHMETIC | {"Pow"}


def three_dimensions(graph: Graph) -> None:
    """[.., K] x [K, N], LayerNormalization over the last dimensions, operands of fewer dimensions than the result."""
    for op in list(graph.ops):
        if op.type in _TWO:
            _equal_ranks(graph, op)
        if op.type == "MatMul" and op.inputs[1] in graph.constants:
            _projection(graph, op)
        elif op.type == "Gemm" and op.inputs[1] in graph.constants:
            _rows(graph, op)
        elif op.type == "LayerNormalization":
            _norm(graph, op)


def _equal_ranks(graph: Graph, op: Op) -> None:
    """The NPU's channels are the second dimension: [C] beside [1, T, C] has none before it is [1, 1, C]."""
    rank = len(graph.shape(op.output))
    for at, name in enumerate(op.inputs):
        if name in graph.constants or len(graph.shape(name)) >= rank:
            continue
        shape = (1,) * (rank - len(graph.shape(name))) + graph.shape(name)
        full = graph.add_value(f"{op.output}_operand", shape)
        graph.derived[full] = (name, lambda values, shape=shape: values.reshape(shape))  # type: ignore[misc]
        graph.ops.insert(graph.ops.index(op), Op("Reshape", full, [name], [full], {}, (op.name,)))
        op.inputs[at] = full


def _projection(graph: Graph, op: Op) -> None:
    shape, weight = graph.shape(op.inputs[0]), graph.constants[op.inputs[1]]
    rows = prod(shape[:-1])
    if weight.ndim != 2 or (rows == 1 and len(shape) == 2) or (rows > 1 and len(shape) == 3 and shape[0] == 1):
        return
    if rows == 1:  # one row is one pixel, whose channels are the second dimension
        _wrap(graph, op, (1, shape[-1]), (1, weight.shape[1]))
        return
    _wrap(graph, op, (1, rows, shape[-1]), (1, rows, weight.shape[1]))


def _rows(graph: Graph, op: Op) -> None:
    """Gemm of several rows: MatMul and Add."""
    shape, weight = graph.shape(op.inputs[0]), graph.constants[op.inputs[1]]
    if len(shape) != 2 or shape[0] == 1 or op.attributes.get("transA"):
        return
    alpha, beta = float(op.attributes.get("alpha", 1.0)), float(op.attributes.get("beta", 1.0))
    matrix = (weight.T if op.attributes.get("transB") else weight) * alpha
    bias = graph.constants.get(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else None
    if bias is None and len(op.inputs) > 2 and op.inputs[2]:
        return
    size = (1, shape[0], matrix.shape[1])
    product = graph.add_derived(f"{op.output}_product", size, op.output, lambda values: values.reshape(size))
    source = graph.add_derived(f"{op.output}_rows", (1, *shape), op.inputs[0], lambda values: values[None])
    steps = [
        Op("Reshape", source, [op.inputs[0]], [source], {}, (op.name,)),
        Op("MatMul", op.name, [source, graph.add_constant(f"{op.output}_weight", matrix)], [product], {}, (op.name,)),
    ]
    if bias is not None and np.any(bias):
        summed = graph.add_derived(f"{op.output}_sum", size, op.output, lambda values: values.reshape(size))
        summand = graph.add_constant(f"{op.output}_bias", np.broadcast_to(bias * beta, shape[:1] + size[2:])[None])
        summand = graph.add_constant(f"{op.output}_row", bias.reshape(-1) * beta) if bias.size == size[2] else summand
        steps.append(Op("Add", f"{op.name}_add", [product, summand], [summed], {}, (op.name,)))
        product = summed
    steps.append(Op("Reshape", f"{op.name}_end", [product], [op.output], {}, (op.name,)))
    replace_op(graph, op, *steps)


def _norm(graph: Graph, op: Op) -> None:
    shape = graph.shape(op.inputs[0])
    axis = int(op.attributes.get("axis", -1)) % len(shape)
    if len(op.outputs) > 1 or (shape[0] == 1 and len(shape) in (3, 4) and axis == len(shape) - 1):
        return
    channels = prod(shape[axis:])
    flat = (1, prod(shape[:axis]), channels)
    for index in (1, 2):
        array = graph.constants.get(op.inputs[index]) if len(op.inputs) > index else None
        if array is not None:
            spread = np.broadcast_to(array, shape[axis:]).reshape(channels)
            op.inputs[index] = graph.add_constant(f"{op.inputs[index]}_flat", spread)
    op.attributes["axis"] = -1
    _wrap(graph, op, flat, flat)


def _wrap(graph: Graph, op: Op, before: tuple[int, ...], after: tuple[int, ...]) -> None:
    """Put the operator between two changes of shape."""
    source = graph.add_value(f"{op.output}_rows_in", before)
    target = graph.add_value(f"{op.output}_rows_out", after)
    graph.derived[source] = (op.inputs[0], lambda values: values.reshape(before))
    graph.derived[target] = (op.output, lambda values: values.reshape(after))
    inner = Op(op.type, op.name, [source, *op.inputs[1:]], [target], dict(op.attributes), (*op.fused, op.name))
    replace_op(
        graph, op,
        Op("Reshape", source, [op.inputs[0]], [source], {}, (op.name,)),
        inner,
        Op("Reshape", f"{op.name}_end", [target], [op.output], {}, (op.name,)),
    )  # fmt: skip
