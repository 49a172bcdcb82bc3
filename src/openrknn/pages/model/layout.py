"""From nodes and edges to a picture: boxes in rows from top to bottom, edges as smooth lines between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from openrknn.pages.model import columns, layers

__all__ = ["Box", "Edge", "Picture", "lay_out"]

_COLUMN_GAP = 28.0
_ROW_GAP = 30.0
_LINE_WIDTH = 6.0


class Box(NamedTuple):
    """Where a node is drawn: its top left corner and its size."""

    x: float
    y: float
    width: float
    height: float


class Edge(NamedTuple):
    """A line from one node to another, as the `d` of an SVG path."""

    source: int
    target: int
    path: str


class Picture(NamedTuple):
    """A graph with positions."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


def lay_out(sizes: Sequence[tuple[float, float]], edges: Iterable[tuple[int, int]]) -> Picture:
    """Place nodes of these sizes (width, height), numbered in the order of execution."""
    graph = layers.build(len(sizes), edges)
    widths = [width for width, _ in sizes] + [_LINE_WIDTH] * (len(graph.above) - len(sizes))
    centres = columns.assign(graph, widths, _COLUMN_GAP)
    tops, heights, bottom = _rows(graph, sizes)
    boxes: list[Box] = []
    for node, (width, height) in enumerate(sizes):
        boxes.append(Box(centres[node] - width / 2, tops[node] + (heights[node] - height) / 2, width, height))
    lines = tuple(
        Edge(source, target, _path(boxes[source], boxes[target], [(centres[w], tops[w], heights[w]) for w in way]))
        for (source, target), way in sorted(graph.routes.items())
    )
    right = max((x + width / 2 for x, width in zip(centres, widths, strict=True)), default=0.0)
    return Picture(right, bottom, tuple(boxes), lines)


def _rows(graph: layers.Layers, sizes: Sequence[tuple[float, float]]) -> tuple[list[float], list[float], float]:
    """The top and the height of each node's row, and the bottom of the last row."""
    tops = [0.0] * len(graph.above)
    heights = [0.0] * len(graph.above)
    top = 0.0
    for row in graph.rows:
        height = max((sizes[node][1] for node in row if not graph.is_waypoint(node)), default=0.0)
        for node in row:
            tops[node], heights[node] = top, height
        top += height + _ROW_GAP
    return tops, heights, max(top - _ROW_GAP, 0.0)


def _path(source: Box, target: Box, way: Sequence[tuple[float, float, float]]) -> str:
    """Out of the middle of the bottom, straight beside the rows that it passes, into the middle of the top."""
    x, y = source.x + source.width / 2, source.y + source.height
    parts = [f"M{x:.5g} {y:.6g}"]
    straight = y
    for next_x, top, height in [*way, (target.x + target.width / 2, target.y, 0.0)]:
        if abs(next_x - x) > 0.5:
            if straight > y:
                parts.append(f"V{straight:.6g}")
            bend = (straight + top) / 2
            parts.append(f"C{x:.5g} {bend:.6g} {next_x:.5g} {bend:.6g} {next_x:.5g} {top:.6g}")
            x, y = next_x, top
        straight = top + height
    if straight > y:
        parts.append(f"V{straight:.6g}")
    return "".join(parts)
