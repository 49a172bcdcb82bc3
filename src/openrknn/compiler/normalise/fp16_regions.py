"""Operators in fp16 inside an int8 model: Softmax, products of two activations, and operators between them."""

from __future__ import annotations

from collections.abc import Mapping

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.integers import is_table
from openrknn.compiler.normalise.layouts import derived_from
from openrknn.compiler.operators import AFFINE

_FLOATS = {"Softmax", "Product"}
_BETWEEN = {"Binary", "Activation", "Conv"}


def mark_fp16_regions(graph: Graph) -> None:
    """Mark them as fp16, and convert results to int8 right after them unless an fp16 operator reads them."""
    # Copies of what is fp16 already: ONNX does not have them, so no calibration could give them a range.
    for name, (source, _) in graph.derived.items():  # a copy of a copy comes after it
        if name in graph.values and source in graph.floats and source not in graph.outputs:
            graph.floats.add(name)
    found = _regions(graph)
    graph.floats |= found
    for op in [entry for entry in graph.ops if entry.output in found]:
        others = [user for user in graph.ops if op.output in user.inputs and user.output not in graph.floats]
        if op.output in graph.outputs:
            name = op.output
            inner = graph.add_value(f"{name}_fp16", graph.shape(name))
            graph.derived[inner] = derived_from(graph, name, lambda x: x)
            graph.floats.discard(name)
            graph.floats.add(inner)
            op.outputs = [inner]
            graph.replace_uses(name, inner, [user for user in graph.ops if user.output in found])
            graph.ops.append(Op("Convert", f"{name}_int8", [inner], [name], {}, op.fused))
        elif others:
            stored = graph.add_value(f"{op.output}_int8", graph.shape(op.output))
            graph.derived[stored] = derived_from(graph, op.output, lambda x: x)
            graph.replace_uses(op.output, stored, others)
            graph.ops.append(Op("Convert", stored, [op.output], [stored], {}, op.fused))
    graph.sort()


def _regions(graph: Graph) -> set[str]:
    found = {op.output for op in graph.ops if op.type in _FLOATS and not graph.is_constant(op.output)}
    readers = graph.readers()
    found |= _scores(graph, readers) | _embeddings(graph, readers)
    for op in graph.ops:  # of chips whose CPU computes it between two products
        is_softmax = op.type == "Cpu" and op.operator == "Softmax"
        if is_softmax and readers[op.output] and all(user.type == "Product" for user in readers[op.output]):
            found.add(op.output)
    before = -1
    while before != len(found):
        before = len(found)
        for op in graph.ops:
            names = graph.activations(op)
            if op.type not in _BETWEEN or not names or op.output in graph.outputs or not found.issuperset(names):
                continue
            if readers[op.output] and all(user.output in found for user in readers[op.output]):
                found.add(op.output)
    return found


_ON_THE_WAY = AFFINE | {"Transpose", "Where"}


def _scores(graph: Graph, readers: Mapping[str, list[Op]]) -> set[str]:
    """From a product of two activations to a Softmax: a mask there is far below every score, and one scale for both
    would leave nothing of the scores."""
    ends = {op.output for op in graph.ops if op.operator == "Softmax"}
    between = {op.output for op in graph.ops if _is_moved(op) or op.type in _BETWEEN}
    return _ways(graph, readers, {op.output for op in graph.ops if op.type == "Product"}, between, ends)


def _embeddings(graph: Graph, readers: Mapping[str, list[Op]]) -> set[str]:
    """From tables to what is fp16 anyway (layer normalisation): sums of embeddings, whose small numbers count."""
    tables = {op.output for op in graph.ops if is_table(graph, op)}
    between = {op.output for op in graph.ops if _is_moved(op) or op.type == "Binary"}
    return _ways(graph, readers, tables, between, set(graph.floats)) - graph.floats if tables else set()


def _ways(
    graph: Graph, readers: Mapping[str, list[Op]], starts: set[str], between: set[str], ends: set[str]
) -> set[str]:
    """Operators on the path from one to the other, if their results have no other reader."""
    leads = set(ends)
    for op in reversed(graph.ops):
        users = readers.get(op.output, [])
        is_alone = op.output not in graph.outputs and users and all(user.output in leads for user in users)
        if op.output in between and is_alone:
            leads.add(op.output)
    behind = set(starts)
    found = set()
    for op in graph.ops:
        if op.output in leads and behind.intersection(op.inputs):
            behind.add(op.output)
            found.add(op.output)
    return found


def _is_moved(op: Op) -> bool:
    return op.type == "Reshape" or (op.type == "Cpu" and op.operator in _ON_THE_WAY)
