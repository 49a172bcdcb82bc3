"""Transpositions that the NPU does itself: in the middle of a network, of whole runs of channels and pixels."""

from __future__ import annotations

from openrknn.compiler.ir import Graph
from openrknn.compiler.lower.turn import can_turn

__all__ = ["find_turns"]

_PLAIN = {"Reshape", "Transpose", "Cpu"}


def find_turns(graph: Graph, atom: int) -> None:
    """Where both sides are tensors of the NPU; the CPU arranges inputs and outputs anyway."""
    makers = graph.producers()
    for op in graph.ops:
        if op.type != "Transpose" or op.output in graph.outputs or op.inputs[0] not in makers:
            continue
        shape = graph.shape(op.inputs[0])
        order = [int(axis) for axis in op.attributes.get("perm") or range(len(shape))[::-1]]
        readers = [other for other in graph.ops if op.output in other.inputs]
        if makers[op.inputs[0]].type in _PLAIN or any(other.type in _PLAIN for other in readers):
            continue
        if can_turn(shape, order, atom):
            op.type, op.attributes = "Turn", {"perm": order}
