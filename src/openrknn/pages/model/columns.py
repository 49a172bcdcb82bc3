"""Columns of a graph drawing: the x coordinate of every node.

A run is a chain of nodes in neighbouring rows. Each node is lined up with the one neighbour above and below that is on
the longest run, so that the main path is straight and short branches and skip connections bend around it; lines
through several rows (waypoints) are runs of their own. What is lined up is a block. Blocks are packed to the left, and
then each moves to the middle of what it is connected to, as far as its neighbours in the rows allow.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from openrknn.pages.model.layers import Layers

__all__ = ["assign"]

_SWEEPS = 8


def assign(layers: Layers, widths: Sequence[float], gap: float) -> list[float]:
    """The centre x of every node and waypoint; the leftmost box begins at 0."""
    block = _blocks(layers)
    members: dict[int, list[int]] = {}
    for row in layers.rows:
        for node in row:
            members.setdefault(block[node], []).append(node)
    before: dict[int, dict[int, float]] = {one: {} for one in members}
    after: dict[int, dict[int, float]] = {one: {} for one in members}
    for row in layers.rows:
        for left, right in pairwise(row):
            between = gap / 2 if layers.is_waypoint(left) or layers.is_waypoint(right) else gap
            space = max((widths[left] + widths[right]) / 2 + between, after[block[left]].get(block[right], 0.0))
            after[block[left]][block[right]] = before[block[right]][block[left]] = space
    xs: dict[int, float] = {}
    waiting = {one: len(others) for one, others in before.items()}
    ready = [one for one, others in waiting.items() if not others]
    for one in ready:  # it grows
        xs[one] = max((xs[other] + space for other, space in before[one].items()), default=0.0)
        for other in after[one]:
            waiting[other] -= 1
            ready += [other] * (not waiting[other])
    tied = {
        one: [block[other] for node in nodes for other in (*layers.above[node], *layers.below[node])
              if block[other] != one]
        for one, nodes in members.items()
    }  # fmt: skip
    for sweep in range(_SWEEPS):
        # Short blocks first: they are the ones to move. Their neighbours make room from the right, then from the left.
        for one in sorted(members, key=lambda one: (len(members[one]), xs[one] if sweep % 2 else -xs[one])):
            if tied[one]:
                low = max((xs[other] + space for other, space in before[one].items()), default=-math.inf)
                high = min((xs[other] - space for other, space in after[one].items()), default=math.inf)
                xs[one] = min(max(median(xs[other] for other in tied[one]), low), max(high, low))
    start = min((xs[block[node]] - width / 2 for node, width in enumerate(widths)), default=0.0)
    return [xs[one] - start for one in block]


def _blocks(layers: Layers) -> list[int]:
    """The first node of each node's block."""
    runs = [0] * len(layers.above)
    for rows, near in ((layers.rows, layers.above), (layers.rows[::-1], layers.below)):
        length = [0] * len(runs)
        for row in rows:
            for node in row:
                others = [other for other in near[node] if layers.is_waypoint(other) == layers.is_waypoint(node)]
                length[node] = 1 + max((length[other] for other in others), default=0)
                runs[node] += length[node]
    upwards, downwards = ([_only_longest(others, runs) for others in near] for near in (layers.above, layers.below))
    block = list(range(len(runs)))
    for upper, lower in pairwise(layers.rows):
        place = {node: number for number, node in enumerate(upper)}
        pairs = [
            (place[above], number)
            for number, node in enumerate(lower)
            if (above := upwards[node]) is not None and downwards[above] == node
        ]
        kept = [(-1, -1), (len(upper), len(lower))]
        for pair in sorted(pairs, key=lambda pair: -runs[lower[pair[1]]]):  # the longer run has the right of way
            at = bisect(kept, pair)
            if kept[at - 1][1] < pair[1] < kept[at][1]:  # it crosses none of them
                kept.insert(at, pair)
                block[lower[pair[1]]] = block[upper[pair[0]]]
    return block


def _only_longest(nodes: Sequence[int], runs: Sequence[int]) -> int | None:
    """The one on the longest run; None where several are."""
    most = max((runs[node] for node in nodes), default=0)
    longest = [node for node in nodes if runs[node] == most]
    return longest[0] if len(longest) == 1 else None
