"""Layers of a graph drawing: which row each node stands in, and in which order the nodes of a row stand.

Nodes are numbers in the order of execution, so an edge always goes from a smaller to a larger number and there is
no cycle to break. An edge that passes rows holds a place in each of them by a *waypoint*; all edges of one source
share their waypoints, so a skip connection with five readers is one line with five branches.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Layers", "build"]

_MAX_WAYPOINTS = 20_000
_SWEEPS = 12
_PATIENCE = 4

Edge = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Layers:
    """Nodes `0..count-1` and waypoints (numbers from `count` on) in ordered rows."""

    count: int
    rows: list[list[int]]
    above: list[list[int]]
    """For each node or waypoint: its neighbours in the row above."""
    below: list[list[int]]
    routes: dict[Edge, tuple[int, ...]]
    """The waypoints of each edge from top to bottom."""

    def is_waypoint(self, node: int) -> bool:
        return node >= self.count


def build(count: int, edges: Iterable[Edge]) -> Layers:
    """Rows for `count` nodes; edges that do not go forward are left out."""
    forward = sorted({(source, target) for source, target in edges if 0 <= source < target < count})
    ranks = _ranks(count, forward)
    layers = _with_waypoints(count, forward, ranks)
    _order(layers)
    return layers


def _ranks(count: int, edges: Sequence[Edge]) -> list[int]:
    """Longest path from the top; a node with more readers than sources then moves down to its first reader."""
    sources: list[list[int]] = [[] for _ in range(count)]
    targets: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        sources[target].append(source)
        targets[source].append(target)
    ranks = [0] * count
    for node in range(count):
        ranks[node] = max((ranks[source] + 1 for source in sources[node]), default=0)
    for node in reversed(range(count)):
        if len(targets[node]) > len(sources[node]):
            ranks[node] = min(ranks[target] for target in targets[node]) - 1
    return ranks


def _with_waypoints(count: int, edges: Sequence[Edge], ranks: Sequence[int]) -> Layers:
    rows: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for node in range(count):
        rows[ranks[node]].append(node)
    layers = Layers(count, rows, [[] for _ in range(count)], [[] for _ in range(count)], {})
    trunks: dict[int, list[int]] = {}
    waypoints = 0
    for source, target in sorted(edges, key=lambda edge: ranks[edge[1]] - ranks[edge[0]]):
        trunk = trunks.setdefault(source, [])
        needed = ranks[target] - ranks[source] - 1
        if waypoints + needed - len(trunk) > _MAX_WAYPOINTS:
            layers.routes[source, target] = ()  # too far: drawn as one curve that does not look where it goes
            continue
        for step in range(len(trunk), needed):
            _extend(layers, trunk or [source], ranks[source] + 1 + step)
            trunk.append(len(layers.above) - 1)
            waypoints += 1
        layers.routes[source, target] = tuple(trunk[:needed])
        _connect(layers, trunk[needed - 1] if needed else source, target)
    return layers


def _extend(layers: Layers, line: Sequence[int], row: int) -> None:
    node = len(layers.above)
    layers.above.append([])
    layers.below.append([])
    layers.rows[row].append(node)
    _connect(layers, line[-1], node)


def _connect(layers: Layers, upper: int, lower: int) -> None:
    layers.below[upper].append(lower)
    layers.above[lower].append(upper)


def _order(layers: Layers) -> None:
    """Sort each row by the mean position of its neighbours, down and up in turn, and keep the best order seen."""
    _first_order(layers)
    best, fewest, waited = [list(row) for row in layers.rows], _crossings(layers), 0
    for sweep in range(_SWEEPS):
        if not fewest or waited >= _PATIENCE:
            break
        downwards = sweep % 2 == 0
        _sweep(layers, downwards=downwards, rightmost=sweep % 4 > 1)
        crossings = _crossings(layers)
        waited += 1
        if crossings < fewest:
            best, fewest, waited = [list(row) for row in layers.rows], crossings, 0
    layers.rows[:] = best


def _first_order(layers: Layers) -> None:
    """Depth first from the top, so that what belongs together starts together."""
    seen: set[int] = set()
    order: list[int] = []
    for top in range(layers.count):
        stack = [] if layers.above[top] else [top]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            order.append(node)
            stack.extend(reversed(layers.below[node]))
    place = {node: number for number, node in enumerate(order)}
    for row in layers.rows:
        row.sort(key=place.__getitem__)


def _sweep(layers: Layers, *, downwards: bool, rightmost: bool) -> None:
    neighbours = layers.above if downwards else layers.below
    rows = layers.rows[1:] if downwards else layers.rows[-2::-1]
    fixed = layers.rows[0] if downwards else layers.rows[-1]
    for row in rows:
        place = {node: number for number, node in enumerate(fixed)}
        _sort_row(row, [neighbours[node] for node in row], place, rightmost=rightmost)
        fixed = row


def _sort_row(row: list[int], near: Sequence[list[int]], place: dict[int, int], *, rightmost: bool) -> None:
    """Barycentres; nodes without neighbours in the fixed row keep their place."""
    centres = {
        node: sum(map(place.__getitem__, others)) / len(others)
        for node, others in zip(row, near, strict=True)
        if others
    }
    movable = [node for node in row if node in centres]
    if rightmost:
        movable.reverse()  # ties change sides, which lets a sweep leave a bad local order
    movable.sort(key=centres.__getitem__)
    following = iter(movable)
    row[:] = [next(following) if node in centres else node for node in row]


def _crossings(layers: Layers) -> int:
    total = 0
    for upper, lower in pairwise(layers.rows):
        place = {node: number for number, node in enumerate(lower)}
        seen: list[int] = []
        for node in upper:
            ends = sorted(place[other] for other in layers.below[node])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total
