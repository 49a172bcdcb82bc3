"""Values that must share one scale: operators that only move bytes tie what they read to what they write."""

from __future__ import annotations

from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.quantise.ranges import Range

__all__ = ["MOVING_CPU", "groups_of", "moves", "spread_ranges"]

_MOVING = {"Pool", "Concat", "Slice", "Repeat", "Reshape"}
MOVING_CPU = {"Reshape", "Transpose", "Concat"}


def moves(op: Op) -> bool:
    """Whether the operator's output holds stored numbers of its input."""
    return op.type in _MOVING or (op.type == "Cpu" and op.attributes["operator"] in MOVING_CPU)


def groups_of(graph: Graph) -> list[list[str]]:
    """Values that share a scale, each group in the order of the graph."""
    parent = {name: name for name in graph.values}

    def find(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    for op in graph.ops:
        if moves(op):
            for name in (*graph.activations(op), *op.outputs[1:]):
                parent[find(name)] = find(op.output)
    found: dict[str, list[str]] = {}
    for name in graph.values:
        found.setdefault(find(name), []).append(name)
    return list(found.values())


def spread_ranges(graph: Graph, ranges: dict[str, Range]) -> None:
    """Give the members of each group the union of their ranges.

    What only a maximum pooling reads never needs more than the pooling gives.
    """
    readers = graph.readers()
    for op in reversed(graph.ops):
        source = op.inputs[0] if op.inputs else ""
        if op.type != "Pool" or op.attributes["method"] != "max" or source in graph.outputs:
            continue
        if readers.get(source) == [op]:
            ranges[source] = ranges[op.output]
    for group in groups_of(graph):
        union = min(ranges[name][0] for name in group), max(ranges[name][1] for name in group)
        for name in group:
            ranges[name] = union
