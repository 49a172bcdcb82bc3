"""Which operators become fp16 for a bound on the loss, by what they gain for each microsecond that they cost.

What int8 costs at each operator is estimated (`sensitivity`), what fp16 takes longer there is the latency estimate's.
Operators are put in the order of the one divided by the other. How many from the front the bound needs is measured, by
halving; the same for operators from the end of the model and from its beginning, which have fewer borders between int8
and fp16. Of the fastest one the costliest operators are tried in int8 again. The number of models is bounded by the
number of operators, not by a clock: the same data give the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from openrknn.compiler.accuracy.judge import LossJudge
from openrknn.compiler.ir import Graph
from openrknn.compiler.mixed import Build, Judge
from openrknn.compiler.quantise.precision import Choice, choosable
from openrknn.compiler.sensitivity import Noise, estimate_noise
from openrknn.container.model import Model
from openrknn.runtime.cost import cost_of

_SAMPLES = 2
"""Calibration inputs that the costs are estimated with."""
_TRIES = 6
"""Operators at most that are tried in int8 again."""
_LEAST = 0.02
"""Of the mean of what fp16 takes longer: an operator that is as fast in fp16 is not infinitely worth it."""
_PARTS = 12
"""Of the model: how finely the operators from one end are counted."""
_TINY = 1e-30

Tell = Callable[[int, int], None]


def choose_by_time(
    graph: Graph, build: Build, judge: Judge, wanted: float, *, always: frozenset[str] = frozenset(),
    tell: Tell = lambda done, of: None,
) -> tuple[frozenset[str], float, dict[str, Choice]]:  # fmt: skip
    """As `mixed.choose_precision`; `wanted` is the negative bound, and so is what is returned."""
    if not isinstance(judge, LossJudge):
        raise TypeError("the bound is one on the loss")
    operators = choosable(graph)
    names = {op.output: op.name for op in operators}
    candidates = [op.output for op in operators if op.output not in always]
    known: dict[frozenset[str], float] = {}
    total = 2 + max(len(candidates), 1).bit_length() + 2 * _PARTS.bit_length() + _TRIES

    def measured(chosen: Sequence[str]) -> float:
        key = frozenset({*chosen, *always})
        if key not in known:
            known[key] = judge(build(key))
            tell(min(len(known), total), total)
        return known[key]

    reached = measured(())
    lossy = {entry.output for entry in judge.last if entry.loss > -wanted}
    if reached >= wanted or not candidates:
        return always, reached, {}
    everything = measured(candidates)
    if everything < wanted:  # no mixture is better than all of them
        return frozenset({*candidates, *always}), everything, {}
    plain = build(always)
    noise = estimate_noise(graph, judge.source, plain, judge.feeds[:_SAMPLES], candidates)
    if lossy:  # other outputs hold the bound already
        noise.signal[[name not in lossy for name in graph.outputs]] = np.inf
    extra = _extra_seconds(names, candidates, plain, build(frozenset({*candidates, *always})))
    ordered = rank_by_time(noise, candidates, extra)
    found = [_fewest(measured, ordered, wanted)]
    found += [_fewest(measured, order, wanted, len(order) // _PARTS) for order in (candidates[::-1], candidates)]
    chosen = min(found, key=lambda names: cost_of(build(frozenset({*names, *always}))).cycles)
    for name in sorted(chosen, key=lambda entry: -extra[entry])[:_TRIES]:
        fewer = [entry for entry in chosen if entry != name]
        if measured(fewer) >= wanted:
            chosen = fewer
    place = {name: number for number, name in enumerate(ordered, start=1)}
    choices = {
        name: Choice(
            names[name], name, "fp16" if name in chosen else "int8",
            f"int8 here alone leaves about {noise.decibels(name):.1f} dB, fp16 takes {extra[name] * 1e6:.0f} us more: "
            f"number {place[name]} of {len(ordered)} to become fp16", noise.decibels(name),
        )
        for name in candidates
    }  # fmt: skip
    return frozenset({*chosen, *always}), measured(chosen), choices


def _fewest(
    measured: Callable[[Sequence[str]], float], ordered: list[str], wanted: float, step: int = 1
) -> list[str]:
    """How many from the front are enough, to within a step; all of them are known to be."""
    low, high = 0, len(ordered)
    while high - low > max(step, 1):
        middle = (low + high) // 2 if low else max(1, high // 4)  # a few usually are
        if measured(ordered[:middle]) >= wanted:
            high = middle
        else:
            low = middle
    return ordered[:high]


def rank_by_time(noise: Noise, names: Sequence[str], extra: Mapping[str, float]) -> list[str]:
    """Each time the operator that takes most noise from the worst output for each second that it costs."""
    left = list(names)
    least = _LEAST * float(np.mean([extra[name] for name in names])) if names else 0.0
    total = np.sum([noise.of[name] for name in left], axis=0) if left else np.zeros_like(noise.signal)
    ordered: list[str] = []
    while left:
        worst = int(np.argmax(total / np.maximum(noise.signal, _TINY)))
        chosen = max(left, key=lambda name: noise.of[name][worst] / max(extra[name], least, _TINY))
        left.remove(chosen)
        ordered.append(chosen)
        total = np.maximum(total - noise.of[chosen], 0)
    return ordered


def _extra_seconds(
    names: Mapping[str, str], candidates: Sequence[str], plain: Model, floats: Model
) -> dict[str, float]:  # fmt: skip
    """What each operator takes longer in fp16."""
    times = []
    for model in (plain, floats):
        found: dict[str, float] = {}
        for entry in cost_of(model).operators:
            found[entry.name] = found.get(entry.name, 0.0) + entry.spent.seconds
        times.append(found)
    return {name: max(0.0, times[1].get(names[name], 0.0) - times[0].get(names[name], 0.0)) for name in candidates}
