"""Query, key and value that come out of one projection: taken apart before the heads are, not after.

    [1, T, n*h*d] -> [1, T, n, h, d] -> [n, 1, h, T, d] -> slice k      becomes
    slice k of [1, T, n*h*d] -> [1, T, h, d] -> [1, h, T, d]
"""

from __future__ import annotations

import numpy as np

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.common import constant, replace_op

_ORDER = [2, 0, 3, 1, 4]


def take_heads_apart(graph: Graph) -> None:
    """Rewrite the slices of five dimensions that attention uses."""
    for op in list(graph.ops):
        if op.type == "Slice" and len(graph.shape(op.inputs[0])) == 5:
            _one(graph, op)
    graph.prune()


def _one(graph: Graph, op: Op) -> None:
    makers = graph.producers()
    turned = makers.get(op.inputs[0])
    split = makers.get(turned.inputs[0]) if turned is not None and turned.type == "Transpose" else None
    if turned is None or split is None or split.type != "Reshape" or turned.attributes.get("perm") != _ORDER:
        return
    source = split.inputs[0]
    _, length, parts, heads, depth = graph.shape(split.output)
    start, axis = constant(graph, op, 1), constant(graph, op, 3)
    if graph.shape(source) != (1, length, parts * heads * depth) or start is None or axis is None:
        return
    if axis.size != 1 or int(axis.reshape(-1)[0]) != 0 or graph.shape(op.output)[0] != 1:
        return
    number, width = int(start.reshape(-1)[0]) % parts, heads * depth
    bounds = [
        graph.add_constant(f"{op.output}_{name}", np.array([value], np.int64))
        for name, value in (("from", number * width), ("to", (number + 1) * width), ("axis", 2))
    ]
    rows = graph.add_value(f"{op.output}_rows", (1, length, width))
    apart = graph.add_value(f"{op.output}_apart", (1, length, heads, depth))
    ordered = graph.add_value(f"{op.output}_ordered", (1, heads, length, depth))
    for name in (rows, apart, ordered):
        graph.derived[name] = (op.output, lambda values: values)
    replace_op(
        graph, op,
        Op("Slice", op.name, [source, *bounds], [rows], {}, op.fused),
        Op("Reshape", apart, [rows], [apart], {}, op.fused),
        Op("Transpose", ordered, [apart], [ordered], {"perm": [0, 2, 1, 3]}, op.fused),
        Op("Reshape", f"{op.name}_end", [ordered], [op.output], {}, op.fused),
    )  # fmt: skip
