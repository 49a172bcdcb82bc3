"""int8 where it costs little, fp16 where it costs much: measured on the calibration data, on the software NPU.

Each operator alone is made int8 in a model that is fp16 otherwise: what the outputs lose is what its quantisation
costs. The worst become fp16, so many that the worst output reaches the wanted signal-to-noise ratio; of these, those
that are not needed for it become int8 again. All numbers come from compiled models that were run, so what is promised
is what the file does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.quantise.evaluate import FloatModel
from openrknn.compiler.quantise.precision import Choice, choosable, copy_graph, find_operators, set_precision
from openrknn.container.model import Model
from openrknn.distance import measure
from openrknn.runtime.session import Session

__all__ = ["Judge", "choose_precision", "mix"]

Build = Callable[[frozenset[str]], Model]
"""Outputs of the operators in fp16 -> the model."""


class Judge:
    """The worst output's signal-to-noise ratio against float."""

    def __init__(
        self, source: object, outputs: Sequence[str], feeds: Sequence[Mapping[str, Array]],
        raw: Sequence[Mapping[str, Array]],
    ) -> None:  # fmt: skip
        """`feeds` is what ONNX takes, `raw` what the compiled model takes."""
        if not feeds:
            raise CalibrationError("choosing the precision needs calibration data: it is measured on them")
        self._outputs, self._raw = list(outputs), raw
        runner = FloatModel(source, self._outputs)
        runs = [dict(runner.run(feed)) for feed in feeds]
        self._wanted = {name: _joined([run[name] for run in runs]) for name in self._outputs}

    def __call__(self, model: Model) -> float:
        with Session(model, "software") as session:
            layouts = {spec.name: "nchw" for spec in session.inputs if len(spec.shape) == 4}
            runs = [session.run(feed, layout=layouts or None) for feed in self._raw]
        joined = {name: _joined([run[name] for run in runs]) for name in self._outputs}
        return min(measure(joined[name], self._wanted[name]).snr_db for name in self._outputs)


def _joined(arrays: list[Array]) -> Array:
    return np.concatenate([array.reshape(-1) for array in arrays])


def choose_precision(
    graph: Graph, build: Build, judge: Callable[[Model], float], wanted: float, *, always: frozenset[str] = frozenset(),
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[frozenset[str], float, dict[str, Choice]]:  # fmt: skip
    """(outputs of the operators that become fp16, decibels reached, why); `always` are fp16 in any case."""
    operators = choosable(graph)
    names = {op.output: op.name for op in operators}
    candidates = [op.output for op in operators if op.output not in always]
    everything = frozenset({*candidates, *always})
    total = 2 * len(candidates)  # more or less: nobody knows how many of them are tried twice
    reached = judge(build(always))
    tell(1, total)
    if reached >= wanted or not candidates:
        return always, reached, {}
    alone: dict[str, float] = {}
    for number, name in enumerate(candidates, start=2):
        alone[name] = judge(build(everything - {name}))
        tell(number, total)
    ranked = sorted(candidates, key=lambda name: (round(alone[name], 6), candidates.index(name)))
    low, high = 0, len(ranked)  # `low` are too few; `high` are enough, or all
    best = None
    done = len(candidates) + 1
    while high - low > 1 or best is None:
        middle = high if best is None else (low + high) // 2
        decibels = judge(build(frozenset({*ranked[:middle], *always})))
        done += 1
        tell(done, max(done, total))
        if best is None or decibels >= wanted:
            best, high = decibels, middle
            if decibels < wanted:  # not even fp16 gets there
                break
        else:
            low = middle
    chosen = frozenset({*ranked[:high], *always})
    for name in reversed(ranked[:high]):  # borders cost too: what is fp16 in vain becomes int8 again
        if best < wanted:
            break
        fewer = chosen - {name}
        decibels = judge(build(fewer))
        done += 1
        tell(done, max(done, total))
        if decibels >= wanted:
            chosen, best = fewer, decibels
    place = {name: number for number, name in enumerate(ranked, start=1)}
    choices = {
        name: Choice(
            names[name], name, "fp16" if name in chosen else "int8",
            f"int8 here alone leaves {alone[name]:.1f} dB, number {place[name]} of {len(ranked)} from the worst",
            alone[name],
        )
        for name in candidates
    }  # fmt: skip
    return chosen, best, choices


def mix(
    graph: Graph, build: Callable[[Graph], Model], judge: Callable[[Model], float] | None, wanted: float,
    by_hand: Sequence[str], *, tell: Callable[[int, int], None],
) -> tuple[Graph, tuple[Choice, ...], float | None]:  # fmt: skip
    """(the graph with its borders, the precision of each operator, decibels if they were measured).

    Without a `judge` only what is named `by_hand` becomes fp16.
    """
    named = frozenset(find_operators(graph, by_hand))
    always = named | graph.floats

    def with_floats(chosen: frozenset[str]) -> Graph:
        copy = copy_graph(graph)
        set_precision(copy, chosen)
        return copy

    chosen = always
    decibels: float | None = None
    measured: dict[str, Choice] = {}
    if judge is not None:
        chosen, decibels, measured = choose_precision(
            graph, lambda names: build(with_floats(names)), judge, wanted, always=always, tell=tell
        )
    mixed = copy_graph(graph)
    reasons = set_precision(mixed, chosen)
    choices = []
    for op in graph.ops:
        entry = measured.get(op.output) or Choice(op.name, op.output, "int8", "int8 is the default")
        if op.output in named:
            entry = replace(entry, reason="named in fp16_layers")
        elif op.output not in chosen and op.output in reasons:
            entry = replace(entry, reason=reasons[op.output])
        elif judge is not None and not measured:
            entry = replace(entry, reason=f"all int8 reaches {decibels:.1f} dB")
        elif op.output in graph.floats:
            entry = replace(entry, reason="int8 is not enough for this kind of operator")
        choices.append(replace(entry, precision="fp16" if op.output in reasons else "int8"))
    return mixed, tuple(choices), decibels
