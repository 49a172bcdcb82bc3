"""Ends of a model that are one pixel: its channels are a row of numbers already, whatever their shape."""

from __future__ import annotations

from openrknn.compiler.ir import Graph, Op

_READERS = {"Conv", "Binary", "Product", "Activation", "Reshape"}
_FOUR = 4
_MAKERS = {"Conv", "Pool", "Activation", "Binary"}


def flatten_ends(graph: Graph) -> None:
    """[1, C, 1, 1] that ends as [1, C]: what makes the pixel writes the output itself."""
    for op in list(graph.ops):
        if op.type != "Reshape" or op.output not in graph.outputs or op.inputs[0] in graph.outputs:
            continue
        maker = graph.producer(op.inputs[0])
        shapes = graph.shape(op.inputs[0]), graph.shape(op.output)
        readers = [other for other in graph.ops if op.inputs[0] in other.inputs]
        if maker is None or maker.type not in _MAKERS or len(maker.outputs) != 1 or len(readers) != 1:
            continue
        if shapes[0][2:] == (1, 1) and shapes[1] == shapes[0][:2]:
            maker.outputs = [op.output]
            _drop(graph, op, op.inputs[0], op.output)


def join_ends(graph: Graph) -> None:
    """[1, C, 1, 1] that comes in or goes out and is [1, C] inside, or the other way round: states of decoders."""
    for op in list(graph.ops):
        source, target = (op.inputs or [""])[0], op.output
        if op.type != "Reshape" or source not in graph.values:
            continue
        if graph.values[source].cube != graph.values[target].cube or graph.values[target].cube[1:] != (1, 1):
            continue
        maker = graph.producer(source)
        readers = [other for other in graph.ops if target in other.inputs]
        if source in graph.inputs and target not in graph.outputs:
            if len(graph.shape(source)) == _FOUR and all(other.type in _READERS for other in readers):
                _drop(graph, op, target, source)
        elif target in graph.outputs and source not in (*graph.outputs, *graph.inputs):
            kinds = {*_MAKERS, "Product", "Concat"}
            made = maker is not None and maker.type in kinds and len(maker.outputs) == 1
            others = [other for other in graph.ops if source in other.inputs and other is not op]
            is_four = len(graph.shape(target)) == _FOUR
            if made and maker is not None and is_four and all(other.type in _READERS for other in others):
                maker.outputs = [target]
                _drop(graph, op, source, target)


def _drop(graph: Graph, op: Op, old: str, new: str) -> None:
    graph.ops.remove(op)
    graph.replace_uses(old, new)
    del graph.values[old]
