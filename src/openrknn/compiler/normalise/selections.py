"""Convolutions that only pick channels become part of the convolution before or behind them."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.normalise.common import sole_reader

__all__ = ["fold_selections"]


def fold_selections(graph: Graph) -> None:
    """Channels in another order, or with zeros between them, cost nothing next to a convolution over all channels."""
    for op in list(graph.ops):
        if op.type == "Conv" and op.attributes.get("from") == "Pick" and _is_pick(graph, op):
            _into_reader(graph, op) or _into_maker(graph, op)
    graph.prune()


def _is_pick(graph: Graph, op: Op) -> bool:
    weight = graph.constants[op.inputs[1]]
    is_plain = op.attributes["group"] == 1 and len(op.inputs) == 3 and not op.attributes.get("activation")
    if not is_plain or weight.shape[2:] != (1, 1) or op.attributes["strides"] != (1, 1) or any(op.attributes["pads"]):
        return False
    return bool((np.count_nonzero(weight, axis=(1, 2, 3)) <= 1).all())


def _into_reader(graph: Graph, op: Op) -> bool:
    """W * P: the reader's weights with their inputs in the order before the pick."""
    reader = sole_reader(graph, op.output)
    if reader is None or not _is_whole(graph, reader) or reader.inputs[0] != op.output:
        return False
    if reader.attributes.get("pad_value"):
        return False
    matrix = graph.constants[op.inputs[1]][:, :, 0, 0]
    weight = graph.constants[reader.inputs[1]]
    reader.inputs[1] = graph.add_constant(f"{reader.inputs[1]}_picked", np.einsum("oihw,ij->ojhw", weight, matrix))
    reader.inputs[0] = op.inputs[0]
    _drop(graph, op, reader)
    return True


def _into_maker(graph: Graph, op: Op) -> bool:
    """P * W, with the bias picked too; zeros stay zeros only where no activation follows."""
    maker = graph.producers().get(op.inputs[0])
    if maker is None or not _is_whole(graph, maker) or sole_reader(graph, op.inputs[0]) is not op:
        return False
    matrix: Array = graph.constants[op.inputs[1]][:, :, 0, 0]
    if maker.attributes.get("activation") and not matrix.any(1).all():
        return False
    if len(maker.inputs) > 3 or maker.attributes.get("edges"):
        return False
    weight, bias = graph.constants[maker.inputs[1]], graph.constants[maker.inputs[2]]
    maker.inputs[1] = graph.add_constant(f"{maker.inputs[1]}_picked", np.einsum("po,oihw->pihw", matrix, weight))
    maker.inputs[2] = graph.add_constant(f"{maker.inputs[2]}_picked", matrix @ bias)
    maker.outputs = [op.output]
    _drop(graph, op, maker)
    return True


def _is_whole(graph: Graph, op: Op) -> bool:
    """A convolution of its own over all channels, whose weights may be rearranged."""
    if op.type != "Conv" or op.attributes["group"] != 1 or op.inputs[1] in graph.stored:
        return False
    return op.inputs[1] in graph.constants and op.inputs[2] in graph.constants


def _drop(graph: Graph, op: Op, into: Op) -> None:
    into.fused = (*into.fused, *(name for name in op.fused if name not in into.fused))
    graph.ops.remove(op)
