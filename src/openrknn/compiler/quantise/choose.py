"""Ranges by what they cost the outputs: finer steps for most numbers against the loss of a few that are clipped.

The cost of a range is the noise-to-signal ratio that it leaves at the outputs: squared errors of what calibration saw,
rounded or clipped, each times what an error in its channel costs (`gradient`). Values that operators only move share a
scale; what is written first makes the error, so these count, and they are chosen for together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from openrknn.compiler.forms import Pool
from openrknn.compiler.ir import Array, Graph, Op
from openrknn.compiler.quantise.groups import groups_of, moves, useful_window
from openrknn.compiler.quantise.range_choice import RangeChoice
from openrknn.compiler.quantise.ranges import Range, quantization_for
from openrknn.compiler.quantise.statistics import Statistics

_BINS = 1024
_FACTORS = np.geomspace(0.05, 1.0, 13)[::-1]
_COHERENT = 32.0
"""Clipped numbers err in one direction and lie side by side, so their errors add up instead of their squares. Measured
on the networks of the acceptance: 10 to 30 times what as many rounded numbers of that error would cost."""
_GAIN = 0.7
"""A narrower range has to be better by so much: calibration has not seen everything."""

_NEAR = 1.05
_ENOUGH = 1e-5
"""50 dB for one value: nothing is worth clipping then."""


@dataclass(slots=True)
class Costs:
    """What each value costs, from its statistics and from what an error costs in each of its channels."""

    seen: Mapping[str, Statistics]
    channels: Mapping[str, Array]

    def knows(self, name: str) -> bool:
        return name in self.channels and name in self.seen and bool(self.channels[name].size)

    def histogram(self, names: Sequence[str], bounds: Range, windows: Mapping[str, Range]) -> tuple[Array, Array]:
        """(for each calibration input: costs of a squared error by the size of the numbers, these sizes).

        Zeros are stored exactly, and cost nothing.
        """
        low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
        edges = np.linspace(low, high if high > low else low + 1e-6, _BINS + 1)
        counts = np.zeros((max(len(self.seen[name].samples) for name in names), _BINS))
        for name in names:
            entry, costs = self.seen[name], self.channels[name]
            for parts in (entry.samples, entry.extremes):
                for number, part in enumerate(parts):
                    fits = len(costs) > int(part.channels.max(initial=0))
                    weights = (costs[part.channels] if fits else np.mean(costs)) * (part.values != 0) * part.each
                    values = np.clip(part.values, *windows[name]) if name in windows else part.values
                    places = np.clip(((values - low) * (_BINS / (edges[-1] - low))).astype(np.int64), 0, _BINS - 1)
                    counts[number] += np.bincount(places, weights=weights, minlength=_BINS)
        return counts, (edges[1:] + edges[:-1]) / 2


def range_cost(counts: Array, centres: Array, low: float, high: float) -> float:
    """The noise-to-signal ratio at the outputs, the mean of all inputs; one input loses no more than everything."""
    made = quantization_for(low, high)
    beyond = np.maximum(np.maximum(made.low - centres, centres - made.high), 0)
    each = counts @ np.where(beyond > made.scale, _COHERENT * beyond**2, made.scale**2 / 12)
    return float(np.mean(np.minimum(each, 1.0)))


def best_range(counts: Array, centres: Array, bounds: Range, held: Range) -> tuple[Range, float]:
    """(the cheapest range that holds `held`, its cost)."""

    def limited(low: float, high: float) -> Range:
        return min(low, held[0]), max(high, held[1])

    chosen = limited(*bounds)
    best = range_cost(counts, centres, *chosen)
    if best < _ENOUGH:
        return chosen, best
    for side in ("both", "high", "low"):
        tried = [
            limited(chosen[0] * (factor if side != "high" else 1.0), chosen[1] * (factor if side != "low" else 1.0))
            for factor in _FACTORS[1:]
        ]
        costs = [range_cost(counts, centres, *entry) for entry in tried]
        least = min(costs)
        if least < best * _GAIN:  # the widest one that is about as good
            number = next(number for number, cost in enumerate(costs) if cost <= least * _NEAR)
            best, chosen = costs[number], tried[number]
    return chosen, best


def decibels(cost: float) -> float:
    """A noise-to-signal ratio as decibels."""
    return -10 * math.log10(max(cost, 1e-30))


def roots_of(group: Sequence[str], makers: Mapping[str, Op]) -> list[str]:
    """The values of a group that are computed; the others are the same numbers in other places."""
    return [name for name in group if name not in makers or not moves(makers[name])]


def choose_ranges(graph: Graph, costs: Costs, ranges: dict[str, Range], held: Mapping[str, Range]) -> list[RangeChoice]:
    """Replace the ranges (everything that was seen) by the cheapest ones that hold `held`; says why."""
    makers = graph.producers()
    windows = {name: window for name in graph.values if (window := useful_window(graph, name)) is not None}
    choices: list[RangeChoice] = []
    for group in groups_of(graph):
        roots = roots_of(group, makers)
        known = [name for name in roots if costs.knows(name)]
        members = [name for name in group if name in costs.seen]
        if not members:
            continue
        whole = min(ranges[name][0] for name in group), max(ranges[name][1] for name in group)
        chosen, cost, before = whole, None, None
        if known:
            counts, centres = costs.histogram(known, whole, windows)
            keep = [held[name] for name in group if name in held]
            keep += [ranges[name] for name in known if _is_for_maximum(graph, name)]
            # The others' range must not be narrowed by what is known of their neighbours alone.
            keep += [ranges[name] for name in roots if name in costs.seen and not costs.knows(name)]
            hold = min((low for low, _ in keep), default=0.0), max((high for _, high in keep), default=0.0)
            before = range_cost(counts, centres, *whole)
            chosen, cost = best_range(counts, centres, whole, hold)
        for name in group:
            ranges[name] = chosen
        choices += [_choice(name, group, costs.seen[name], chosen, whole, cost, before) for name in members]
    return choices


def _is_for_maximum(graph: Graph, name: str) -> bool:
    """Whether only the largest numbers count: those that a narrower range would clip."""
    users = [op for op in graph.ops if name in op.inputs]
    return bool(users) and all(isinstance(op.form, Pool) and op.form.method == "max" for op in users)


def _choice(
    name: str, group: Sequence[str], seen: Statistics, chosen: Range, whole: Range, cost: float | None,
    before: float | None,
) -> RangeChoice:  # fmt: skip
    if cost is None or before is None:
        reason, method = "what an error costs here is not known: everything that was seen is held", "minmax"
    elif chosen == whole:
        reason, method = "no narrower range would leave more at the outputs", "minmax"
    else:
        reason = (
            f"int8 here alone leaves {decibels(cost):.1f} dB at the outputs; with everything that was seen "
            f"({whole[0]:.4g} to {whole[1]:.4g}) it would be {decibels(before):.1f} dB"
        )
        method = "cost"
    others = tuple(other for other in group if other != name)
    return RangeChoice(
        name, method, *chosen, seen.low, seen.high, reason, None if cost is None else decibels(cost),
        None if before is None else decibels(before), others,
    )  # fmt: skip
