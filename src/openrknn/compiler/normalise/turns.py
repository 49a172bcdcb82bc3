"""Transpositions that the NPU does itself: in the middle of a network, of whole runs of channels and pixels."""

from __future__ import annotations

from collections.abc import Sequence

from openrknn.compiler.forms import Turn
from openrknn.compiler.ir import Graph

_PLAIN = {"Reshape", "Transpose", "Cpu"}
_SPATIAL = [0, 1, 3, 2]
_MOST_TASKS = 640
_LONGEST = 8191
_HALF = 8
_FARTHEST = 8192
"""Atoms from one surface to the next that a task can step over."""


def can_turn(shape: Sequence[int], order: Sequence[int], atom: int) -> bool:
    """Whether the NPU does it: whole runs only, and not too many tasks."""
    if len(shape) != 4 or shape[0] != 1 or order[0] != 0 or max(shape) > _LONGEST:
        return False
    channels, lines = shape[1], _lines(shape, order)
    if list(order) == _SPATIAL:
        return -(-channels // atom) <= _MOST_TASKS
    if order[1] == 1 or channels % atom or shape[order[1]] % atom:
        return False
    runs = shape[order[1]]
    if atom > _HALF:
        return lines * (channels // atom) <= _MOST_TASKS and _HALF * lines < _FARTHEST
    is_far = channels * lines > _FARTHEST - 4
    return lines * (runs // atom if is_far else 1) <= _MOST_TASKS


def _lines(shape: Sequence[int], order: Sequence[int]) -> int:
    """Of the spatial dimension that does not become the channels."""
    return shape[5 - order[1]] if order[1] != 1 else 1


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
            op.become("Turn", Turn(tuple(order)))
