"""What the NPU computes in fp16 also in an int8 model: Softmax, products of two activations, and what lies between."""

from __future__ import annotations

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.normalise.layouts import derived_from

__all__ = ["mark_fp16_regions"]

_FLOATS = {"Softmax", "Product"}
_BETWEEN = {"Binary", "Activation", "Conv"}


def mark_fp16_regions(graph: Graph) -> None:
    """Note them as fp16, and make int8 of their results right behind them, where nobody in fp16 reads them."""
    found = _regions(graph)
    graph.floats |= found
    for op in [entry for entry in graph.ops if entry.output in found]:
        others = [user for user in graph.ops if op.output in user.inputs and user.output not in found]
        if op.output in graph.outputs:
            name = op.output
            inner = graph.add_value(f"{name}_fp16", graph.shape(name))
            graph.derived[inner] = derived_from(graph, name, lambda x: x)
            graph.floats.discard(name)
            graph.floats.add(inner)
            op.outputs = [inner]
            for user in graph.ops:
                if user.output in found:
                    user.inputs = [inner if entry == name else entry for entry in user.inputs]
            graph.ops.append(Op("Convert", f"{name}_int8", [inner], [name], {}, op.fused))
        elif others:
            stored = graph.add_value(f"{op.output}_int8", graph.shape(op.output))
            graph.derived[stored] = derived_from(graph, op.output, lambda x: x)
            for user in others:
                user.inputs = [stored if entry == op.output else entry for entry in user.inputs]
            graph.ops.append(Op("Convert", stored, [op.output], [stored], {}, op.fused))
    graph.sort()


def _regions(graph: Graph) -> set[str]:
    found = {op.output for op in graph.ops if op.type in _FLOATS and not graph.is_constant(op.output)}
    readers = graph.readers()
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
