"""Concatenations whose parts suffer from one scale: a part that others read too keeps its own, and a copy is joined.

A part that only the concatenation reads is written with its scale at once: nothing is to be gained. A part that has
other readers, is an input, or is itself moved from elsewhere ties all of these to the widest part: one task more (a 1x1
convolution that changes nothing but the scale) frees them.
"""

from __future__ import annotations

from collections.abc import Mapping

from openrknn.compiler.identity import identity_conv
from openrknn.compiler.ir import Graph, Op
from openrknn.compiler.quantise.choose import Costs, best_range, range_cost, roots_of
from openrknn.compiler.quantise.groups import groups_of, moves
from openrknn.compiler.quantise.ranges import Range

WHY = "Requantise"
_WORTH = 0.02
"""Of the noise that all values make together: a part that costs less through its tie stays tied."""
_FLOOR = 1e-5
"""50 dB: more is not needed."""
_LARGER = 2.0
"""Ranges that differ by less are left alone."""


def untie(graph: Graph, costs: Costs, ranges: dict[str, Range]) -> list[str]:
    """Insert copies; their names. `ranges` is everything that was seen, and gets the copies' ranges."""
    made: list[str] = []
    makers = graph.producers()
    joins = [op for op in graph.ops if op.type == "Concat" and op.output not in graph.floats]
    if not any(_is_tied(graph, op, name, makers) for op in joins for name in op.inputs):
        return made
    total = _total(graph, costs, ranges, makers)
    for op in joins:
        for place, name in enumerate(op.inputs):
            if not _is_tied(graph, op, name, makers) or name in graph.given:
                continue
            own = ranges[name][1] - ranges[name][0]
            group = next(group for group in groups_of(graph) if name in group)
            whole = max(ranges[other][1] for other in group) - min(ranges[other][0] for other in group)
            if whole < _LARGER * own or not _gains(graph, costs, ranges, op, place, max(total * _WORTH, _FLOOR)):
                continue
            made.append(_insert(graph, ranges, op, place))
            makers = graph.producers()
    return made


def _is_tied(graph: Graph, op: Op, name: str, makers: Mapping[str, Op]) -> bool:
    if name in graph.constants or graph.values[name].cube[0] == 0 or op.inputs.count(name) > 1:
        return False
    others = any(name in entry.inputs for entry in graph.ops if entry is not op)
    return others or name in graph.inputs or name in graph.outputs or (name in makers and moves(makers[name]))


def _total(graph: Graph, costs: Costs, ranges: Mapping[str, Range], makers: Mapping[str, Op]) -> float:
    """What all values cost, each with everything that was seen of it."""
    found = 0.0
    for name in graph.values:
        if costs.knows(name) and (name not in makers or not moves(makers[name])):
            found += range_cost(*costs.histogram([name], ranges[name], {}), *ranges[name])
    return found


def _cheapest(costs: Costs, names: list[str], ranges: Mapping[str, Range]) -> tuple[Range, float]:
    bounds = min(ranges[name][0] for name in names), max(ranges[name][1] for name in names)
    counts, centres = costs.histogram(names, bounds, {})
    return best_range(counts, centres, bounds, (0.0, 0.0))


def _gains(graph: Graph, costs: Costs, ranges: Mapping[str, Range], op: Op, place: int, worth: float) -> bool:
    """Whether the part's side of the tie loses more than `worth` by sharing the scale."""
    makers = graph.producers()
    group = next(group for group in groups_of(graph) if op.inputs[place] in group)
    side = _side(graph, op, place)
    mine = [name for name in roots_of(group, makers) if name in side and costs.knows(name)]
    known = [name for name in roots_of(group, makers) if costs.knows(name)]
    if not mine or len(mine) == len(known):
        return False
    together, _ = _cheapest(costs, known, ranges)
    bounds = min(ranges[name][0] for name in known), max(ranges[name][1] for name in known)
    counts, centres = costs.histogram(mine, bounds, {})
    alone = _cheapest(costs, mine, ranges)[1]
    return range_cost(counts, centres, *together) - alone > worth


def _side(graph: Graph, op: Op, place: int) -> set[str]:
    """What stays tied to the part if the concatenation gets a copy of it."""
    saved = op.inputs[place]
    op.inputs[place] = ""
    try:
        return set(next(group for group in groups_of(graph) if saved in group))
    finally:
        op.inputs[place] = saved


def _insert(graph: Graph, ranges: dict[str, Range], op: Op, place: int) -> str:
    name = op.inputs[place]
    copy = graph.add_derived(f"{name}_rescaled", graph.values[name].shape, name)
    ranges[copy] = ranges[name]
    graph.ops.insert(graph.ops.index(op), identity_conv(graph, name, copy, copy, why=WHY))
    op.inputs[place] = copy
    return copy
