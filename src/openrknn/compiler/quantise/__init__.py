"""Stage 3, quantise: a scale and zero point for every value, from calibration data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openrknn.compiler.forms import Conv
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.quantise.choose import Costs, choose_ranges
from openrknn.compiler.quantise.groups import groups_of, limit_ranges, unite
from openrknn.compiler.quantise.range_choice import RangeChoice
from openrknn.compiler.quantise.ranges import METHODS, Range, importance, quantization_for
from openrknn.compiler.quantise.statistics import Statistics, collect
from openrknn.compiler.quantise.unstated import fine_means, leave_float, noise_for
from openrknn.compiler.quantise.untie import untie

__all__ = ["quantise"]

_SPARE = 1.25
"""A part of a sum can be larger than the sum."""
_SURE_LOGIT = 4.0
"""A score of 98 %."""
_EVEN_SCORE = 0.5


def quantise(
    graph: Graph, model: Any, seen: dict[str, Statistics], method: str, costs: Mapping[str, Array],
    choices: list[RangeChoice],
) -> None:  # fmt: skip
    """Give every value its quantization, from what calibration saw of it; why is added to `choices`.

    A model that is quantised already keeps its own scales, and needs no calibration data.
    """
    unseen: Range = (0.0, 1.0)  # of what is fp16 anyway
    if graph.given:
        ranges = _given_ranges(graph, model, seen)
        unite(graph, ranges)
    else:
        ranges = dict.fromkeys(graph.floats.intersection(graph.values), unseen)
        weights = importance(graph) if method == "mse" else {}
        choose = METHODS["minmax" if method == "cost" else method]
        for name, entry in seen.items():
            if name in graph.values:
                ranges[name] = choose(entry, weights.get(name))
        for name in (*graph.inputs, *graph.outputs):  # pictures and results keep their whole range, always
            ranges[name] = seen[name].low, seen[name].high
        known = Costs(seen, costs)
        for name in untie(graph, known, ranges) if method == "cost" else ():
            seen[name] = seen[graph.derived[name][0]]
        held = _hold_decisions(graph, ranges) | _hold_padding(graph, ranges)
        limit_ranges(graph, ranges)
        held |= {name: ranges[name] for name in (*graph.inputs, *graph.outputs)}
        if method == "cost":
            made = choose_ranges(graph, known, ranges, held)
        else:
            unite(graph, ranges)
            made = [
                RangeChoice(name, method, *ranges[name], entry.low, entry.high, f"method {method} was asked for")
                for name, entry in seen.items() if name in graph.values
            ]  # fmt: skip
        choices += made
    for name, (low, high) in ranges.items():
        graph.values[name].quantization = quantization_for(low, high)
    _free_ends(graph)


def _hold_decisions(graph: Graph, ranges: dict[str, Range]) -> dict[str, Range]:
    """Scores that never reached 50 % in calibration (pictures without objects) can do so in use."""
    held: dict[str, Range] = {}
    for name, (low, high) in ranges.items():
        source = graph.derived[name][0] if name in graph.derived else name
        if source in graph.logits and high <= 0:
            held[name] = low, _SURE_LOGIT
        elif source in graph.logits:  # no clipping may hide which side of 0 a number is on
            held[name] = min(max(low, -_SURE_LOGIT), 0.0), min(high, _SURE_LOGIT)
        elif source in graph.scores and low >= 0 and high < _EVEN_SCORE:
            held[name] = 0.0, 1.0
    for name, (low, high) in held.items():
        ranges[name] = min(ranges[name][0], low), max(ranges[name][1], high)
    return held


def _hold_padding(graph: Graph, ranges: dict[str, Range]) -> dict[str, Range]:
    """Ranges that hold what convolutions pad with."""
    held: dict[str, Range] = {}
    for op in graph.ops:
        pad = op.get(Conv).pad_value if op.type == "Conv" else 0.0
        if pad and any(op.get(Conv).pads):
            low, high = held.get(op.inputs[0], (0.0, 0.0))
            held[op.inputs[0]] = min(low, pad), max(high, pad)
    for name, (low, high) in held.items():
        ranges[name] = min(ranges[name][0], low), max(ranges[name][1], high)
    return held


def _free_ends(graph: Graph) -> None:
    """Probabilities that the CPU computes last stay fp16: nothing is saved by rounding them to steps of 1/255."""
    for op in graph.ops:
        is_end = op.output in graph.outputs and not any(op.output in other.inputs for other in graph.ops)
        if op.type == "Cpu" and op.operator == "Softmax" and is_end and op.output not in graph.given:
            graph.values[op.output].quantization = None
            source = op.inputs[0]
            if source in graph.inputs and not any(source in other.inputs for other in graph.ops if other is not op):
                graph.values[source].quantization = None


def _given_ranges(graph: Graph, model: Any, seen: dict[str, Statistics]) -> dict[str, Range]:
    """What the model states, and for values in between what follows from their neighbours."""
    stated: dict[str, Range] = {name: (q.low, q.high) for name, q in graph.given.items()}
    ranges = {name: entry for name, entry in stated.items() if name in graph.values}
    fine = fine_means(graph, ranges)
    for name, (source, _) in graph.derived.items():
        if name not in {*stated, *graph.partial, *fine} and source in stated:
            stated[name] = stated[source]
    ranges = {name: entry for name, entry in stated.items() if name in graph.values}
    for name, whole in graph.partial.items():
        if name in graph.values and name not in ranges and whole in ranges:
            reach = _SPARE * max(abs(bound) for bound in ranges[whole])
            ranges[name] = (-reach, reach)
    for group in groups_of(graph):
        known = [ranges[name] for name in group if name in ranges]
        for name in group:
            if name not in ranges and known:
                ranges[name] = min(low for low, _ in known), max(high for _, high in known)
    for name in graph.values:
        if name not in ranges and name in seen:
            ranges[name] = seen[name].low, seen[name].high
    ranges |= dict.fromkeys(graph.floats.intersection(graph.values) - ranges.keys(), (0.0, 1.0))
    missing = [name for name in graph.values if name not in ranges]
    if missing:
        tried = collect(graph, model, noise_for(graph, ranges), None)
        seen.update({name: tried[name] for name in missing if name in tried})
        ranges |= {name: (seen[name].low, seen[name].high) for name in missing if name in seen}
        ranges |= dict.fromkeys((name for name in missing if name not in ranges), (0.0, 1.0))
        leave_float(graph, set(missing), ranges)
    return ranges
