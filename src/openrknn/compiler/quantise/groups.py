"""Values that must share one scale: operators that only move bytes tie what they read to what they write."""

from __future__ import annotations

import numpy as np

from openrknn.compiler.forms import Activation, Pool
from openrknn.compiler.identity import MOVING_CONVS
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.quantise.ranges import Range

_MOVING = {"Pool", "Concat", "Slice", "Repeat", "Reshape", "Turn"}
MOVING_CPU = {"Reshape", "Transpose", "Concat", "AveragePool"}
_SATURATES = {"tanh": 3.12, "sigmoid": 6.23, "erf": 2.04}
"""Beyond that the function is constant to half of 1/255 of its range."""


def moves(op: Op) -> bool:
    """Whether the operator's output holds stored numbers of its input."""
    if op.type == "Conv":
        is_bare = not op.activation and len(op.inputs) <= 3  # nothing is added on the way
        return op.origin in MOVING_CONVS and is_bare
    return op.type in _MOVING or (op.type == "Cpu" and op.operator in MOVING_CPU)


def _picks(op: Op) -> bool:
    """Whether nothing that the operator leaves out is ever needed."""
    if isinstance(op.form, Pool):
        return op.form.method == "max"
    return op.type == "Slice" or (op.type == "Conv" and op.origin == "Slice" and moves(op))


def _useful(op: Op) -> Range | None:
    """The inputs between which the operator's result changes by more than half a step of int8."""
    if not isinstance(op.form, Activation):
        return None
    function, (alpha, beta) = op.form.function, op.form.numbers
    if function == "relu":
        return 0.0, np.inf
    if function == "clip":
        return 0.0, beta
    if function == "bounds":
        return alpha, beta
    if function == "hardsigmoid":
        return -beta / alpha, (1 - beta) / alpha
    limit = _SATURATES.get(function)
    return None if limit is None else (-limit, limit)


def groups_of(graph: Graph) -> list[list[str]]:
    """Values that share a scale, each group in the order of the graph."""
    parent = {name: name for name in graph.values}

    def find(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for op in graph.ops:
        if moves(op) and op.output not in graph.floats:  # what becomes fp16 has no scale
            for name in (*graph.activations(op), *op.outputs[1:]):
                parent[find(name)] = find(op.output)
    found: dict[str, list[str]] = {}
    for name in graph.values:
        found.setdefault(find(name), []).append(name)
    return list(found.values())


def limit_ranges(graph: Graph, ranges: dict[str, Range]) -> None:
    """What is never needed is left out.

    What only slices and maximum poolings read never needs more than they give, and what only a saturating function
    reads never needs more than where it saturates.
    """
    readers = graph.readers()
    for name in reversed(list(graph.values)):
        users = readers[name]
        if name in graph.outputs or not users:
            continue
        if all(_picks(op) for op in users):
            ranges[name] = min(ranges[op.output][0] for op in users), max(ranges[op.output][1] for op in users)
        window = _window(users)
        if window is not None:
            ranges[name] = max(ranges[name][0], window[0]), min(ranges[name][1], window[1])


def useful_window(graph: Graph, name: str) -> Range | None:
    """Where a value's numbers differ for those who read it; None: everywhere."""
    users = [op for op in graph.ops if name in op.inputs]
    return None if name in graph.outputs or not users else _window(users)


def _window(users: list[Op]) -> Range | None:
    useful = [_useful(op) for op in users]
    if not all(window is not None for window in useful):
        return None
    return min(window[0] for window in useful if window), max(window[1] for window in useful if window)


def unite(graph: Graph, ranges: dict[str, Range]) -> None:
    """Give the members of each group the union of their ranges."""
    for group in groups_of(graph):
        union = min(ranges[name][0] for name in group), max(ranges[name][1] for name in group)
        for name in group:
            ranges[name] = union
