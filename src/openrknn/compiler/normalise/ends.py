"""Outputs of chips without operators of the CPU: a pixel's channels are a row of numbers already."""

from __future__ import annotations

from openrknn.compiler.ir import Graph

__all__ = ["flatten_ends"]

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
            graph.ops.remove(op)
            maker.outputs = [op.output]
