"""Columns of a graph drawing: the x coordinate of every node, after Brandes and Köpf (2002).

The idea: line nodes up with their median neighbour into vertical blocks, in four ways (neighbours above or below,
leaning left or right), pack each way as tightly as the gaps allow, and take the mean of the middle two. Lines
through several rows (waypoints) are lined up first, so they come out straight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

from openrknn.pages.model.layers import Layers

__all__ = ["assign"]

_TIGHTENINGS = 3
_SAME = 0.5

Pair = tuple[int, int]
Gap = Callable[[int, int], float]


def assign(layers: Layers, widths: Sequence[float], gap: float) -> list[float]:
    """The centre x of every node and waypoint; the leftmost box begins at 0."""
    if not layers.above:
        return []
    conflicts = _conflicts(layers)

    def distance(left: int, right: int) -> float:
        between = gap / 2 if layers.is_waypoint(left) or layers.is_waypoint(right) else gap
        return (widths[left] + widths[right]) / 2 + between

    kin = _kin(layers)
    ways = []
    for upwards in (False, True):
        for leftwards in (False, True):
            rows = [row[::-1] if leftwards else row for row in (layers.rows[::-1] if upwards else layers.rows)]
            roots = _align(rows, kin[upwards], conflicts)
            xs = _compact(rows, roots, distance)
            ways.append([-x for x in xs] if leftwards else xs)
    centres = _balance(ways)
    _tighten(layers, centres, distance)
    start = min(x - width / 2 for x, width in zip(centres, widths, strict=True))
    return [x - start for x in centres]


def _kin(layers: Layers) -> tuple[list[list[int]], list[list[int]]]:
    """The neighbours above and below to line up with: those on the longest run, if both ends see it so.

    A run is a chain of nodes in neighbouring rows. This keeps the main path straight and bends short branches and
    skip connections around it; branches of the same length stay symmetric.
    """
    upper = _on_longest_run(layers, layers.above, layers.rows)
    lower = _on_longest_run(layers, layers.below, layers.rows[::-1])
    above = [[other for other in others if node in lower[other]] for node, others in enumerate(upper)]
    below = [[other for other in others if node in upper[other]] for node, others in enumerate(lower)]
    return above, below


def _on_longest_run(layers: Layers, near: Sequence[list[int]], rows: Sequence[list[int]]) -> list[list[int]]:
    run = [0] * len(near)
    chosen: list[list[int]] = [[] for _ in near]
    for row in rows:
        for node in row:
            others = [other for other in near[node] if layers.is_waypoint(other) == layers.is_waypoint(node)]
            longest = max((run[other] for other in others), default=0)
            chosen[node] = [other for other in others if run[other] == longest] or near[node]
            run[node] = longest + 1
    return chosen


def _conflicts(layers: Layers) -> set[Pair]:
    """Edges between rows that cross a line between two waypoints; the line has the right of way."""
    found: set[Pair] = set()
    for upper, lower in pairwise(layers.rows):
        place = {node: number for number, node in enumerate(upper)}
        left, first = -1, 0
        for number, node in enumerate(lower):
            line = next((above for above in layers.above[node] if layers.is_waypoint(above)), None)
            inner = place[line] if line is not None and layers.is_waypoint(node) else None
            if inner is None and number < len(lower) - 1:
                continue
            right = len(upper) if inner is None else inner
            for other in lower[first : number + 1]:
                for above in layers.above[other]:
                    is_inner = layers.is_waypoint(other) and layers.is_waypoint(above)
                    if not is_inner and not left <= place[above] <= right:
                        found.add((above, other))
            left, first = right, number + 1
    return found


def _align(rows: Sequence[Sequence[int]], near: Sequence[Sequence[int]], conflicts: set[Pair]) -> list[int]:
    """The root of each node's block: nodes of one block get the same x."""
    root = list(range(len(near)))
    is_taken = [False] * len(near)
    place = {node: number for row in rows for number, node in enumerate(row)}
    for row in rows:
        last = -1
        for node in row:
            others = sorted(near[node], key=place.__getitem__)
            middle = (len(others) - 1) // 2
            for other in others[middle : len(others) // 2 + 1]:
                is_free = not is_taken[other] and (other, node) not in conflicts and (node, other) not in conflicts
                if root[node] == node and is_free and last < place[other]:
                    is_taken[other] = True
                    root[node] = root[other]
                    last = place[other]
    return root


def _compact(rows: Sequence[Sequence[int]], root: Sequence[int], distance: Gap) -> list[float]:
    """Blocks as far left as the gaps allow, then each as far right as that costs nothing."""
    after: dict[int, dict[int, float]] = {block: {} for block in root}
    before: dict[int, dict[int, float]] = {block: {} for block in root}
    for row in rows:
        for left, right in pairwise(row):
            space = max(distance(left, right), after[root[left]].get(root[right], 0.0))
            after[root[left]][root[right]] = before[root[right]][root[left]] = space
    xs: dict[int, float] = {}
    order = _topological(after, before)
    for block in order:
        xs[block] = max((xs[other] + space for other, space in before[block].items()), default=0.0)
    for block in reversed(order):
        room = min((xs[other] - space for other, space in after[block].items()), default=None)
        if room is not None:
            xs[block] = max(xs[block], room)
    return [xs[block] for block in root]


def _topological(after: dict[int, dict[int, float]], before: dict[int, dict[int, float]]) -> list[int]:
    waiting = {block: len(others) for block, others in before.items()}
    ready = [block for block, others in waiting.items() if not others]
    order: list[int] = []
    while ready:
        block = ready.pop()
        order.append(block)
        for other in after[block]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return order


def _balance(ways: Sequence[Sequence[float]]) -> list[float]:
    """Shift the four ways onto the narrowest (left ones by the left side, right ones by the right) and average."""
    spans = [(min(xs), max(xs)) for xs in ways]
    low, high = min(spans, key=lambda span: span[1] - span[0])
    shifted = [
        [x + (high - span[1] if number % 2 else low - span[0]) for x in xs]
        for number, (xs, span) in enumerate(zip(ways, spans, strict=True))
    ]
    return [sum(sorted(four)[1:3]) / 2 for four in zip(*shifted, strict=True)]


def _tighten(layers: Layers, xs: list[float], distance: Gap) -> None:
    """Move each straight piece towards what it is connected to, as far as its neighbours in the rows allow."""
    beside: dict[int, tuple[int | None, int | None]] = {}
    for row in layers.rows:
        beside.update(zip(row, zip([None, *row], [*row[1:], None], strict=False), strict=True))
    pieces = _pieces(layers, xs)
    for _ in range(_TIGHTENINGS):
        for piece in pieces:
            own = set(piece)
            neighbours = [
                xs[other] for node in piece for other in (*layers.above[node], *layers.below[node]) if other not in own
            ]
            if neighbours:
                sides = [(node, *beside[node]) for node in piece]
                low = max(
                    (xs[left] + distance(left, node) for node, left, _ in sides if left is not None), default=-math.inf
                )
                high = min(
                    (xs[right] - distance(node, right) for node, _, right in sides if right is not None),
                    default=math.inf,
                )
                x = min(max(median(neighbours), low), max(high, low))
                for node in piece:
                    xs[node] = x


def _pieces(layers: Layers, xs: Sequence[float]) -> list[list[int]]:
    """Connected nodes that stand exactly below each other; short pieces first, they are the ones to move."""
    piece_of: dict[int, list[int]] = {}
    for row in layers.rows:
        for node in row:
            upper = next((above for above in layers.above[node] if abs(xs[above] - xs[node]) < _SAME), None)
            piece = [] if upper is None else piece_of[upper]
            piece.append(node)
            piece_of[node] = piece
    return sorted({id(piece): piece for piece in piece_of.values()}.values(), key=len)
