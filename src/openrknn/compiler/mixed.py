"""int8 where it costs little, fp16 where it costs much: measured on the calibration data.

What the quantisation of each operator costs is estimated (see `sensitivity`), and the operators are put in the order in
which they should become fp16. How many of them have to is measured: compiled models are run on the software NPU, so
what is promised is what the file does. Of the chosen ones those that turn out not to be needed become int8 again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from openrknn.compiler.errors import CalibrationError
from openrknn.compiler.float_model import FloatModel
from openrknn.compiler.ir import Array, Graph
from openrknn.compiler.quantise.precision import Choice, choosable, copy_graph, find_operators, set_precision
from openrknn.compiler.sensitivity import estimate_noise, rank
from openrknn.container.model import Model
from openrknn.distance import measure
from openrknn.runtime.session import Session

Build = Callable[[frozenset[str]], Model]
"""Outputs of the operators in fp16 -> the model."""
_SAMPLES = 2
"""Calibration inputs that the costs are estimated with."""
_TRIES = 12
"""Operators at most that are tried in int8 again."""
_FEW = 256
"""Up to so many operators two orders are tried: by the worst output, and by what each operator costs alone."""
_MODEL_RUNS = 16
"""For the progress bar: to compile and run a model takes as long as so many runs in float, more or less."""
_USUAL_MODELS = 8


class Judge:
    """The worst output's signal-to-noise ratio against float."""

    def __init__(
        self, source: object, outputs: Sequence[str], feeds: Sequence[Mapping[str, Array]],
        raw: Sequence[Mapping[str, Array]],
    ) -> None:  # fmt: skip
        """`feeds` is what ONNX takes, `raw` what the compiled model takes."""
        if not feeds:
            raise CalibrationError("choosing the precision needs calibration data: it is measured on them")
        self.source, self.feeds = source, list(feeds)
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


class _Search:
    """How many of the ranked operators have to be fp16; every number is measured once."""

    def __init__(self, build: Build, judge: Callable[[Model], float], always: frozenset[str], wanted: float) -> None:
        self._build, self._judge, self._always, self._wanted = build, judge, always, wanted
        self._known: dict[frozenset[str], float] = {}
        self.tell: Callable[[int], None] = lambda done: None

    def __call__(self, chosen: Iterable[str]) -> float:
        """Decibels of the worst output with these in fp16."""
        key = frozenset({*chosen, *self._always})
        if key not in self._known:
            self._known[key] = self._judge(self._build(key))
            self.tell(len(self._known))
        return self._known[key]

    def fewest(self, ranked: Sequence[str], guess: int) -> int:
        """How many from the front are enough; all of them if not even these are."""
        low, high = 0, len(ranked)  # `low` are too few
        middle = min(max(guess, 1), high)
        while high - low > 1:
            if self(ranked[:middle]) >= self._wanted:
                high = middle
            else:
                low = middle
            middle = (low + high) // 2
        return high

    def without(self, chosen: list[str], tries: int) -> list[str]:
        """Borders cost time: operators that gain nothing from fp16 become int8. The last one was needed."""
        kept = list(chosen)
        for name in (*chosen[-2::-1][:tries], chosen[-1]):
            fewer = [entry for entry in kept if entry != name]
            if self(fewer) >= self._wanted:
                kept = fewer
        return kept


def choose_precision(
    graph: Graph, build: Build, judge: Judge, wanted: float, *, always: frozenset[str] = frozenset(),
    tell: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[frozenset[str], float, dict[str, Choice]]:  # fmt: skip
    """(outputs of the operators that become fp16, decibels reached, why); `always` are fp16 in any case."""
    operators = choosable(graph)
    names = {op.output: op.name for op in operators}
    candidates = [op.output for op in operators if op.output not in always]
    search = _Search(build, judge, always, wanted)
    floats = len(candidates) * min(len(judge.feeds), _SAMPLES)
    # Runs in float are quick, and nobody knows how many models have to be measured: the bar may end early.
    total = floats + _MODEL_RUNS * (_USUAL_MODELS + min(len(candidates), _TRIES))
    reached = search(())
    tell(_MODEL_RUNS, total)
    if reached >= wanted or not candidates:
        return always, reached, {}
    noise = estimate_noise(
        graph, judge.source, build(always), judge.feeds[:_SAMPLES], candidates,
        lambda done: tell(_MODEL_RUNS + done, total),
    )  # fmt: skip
    search.tell = lambda done: tell(min(floats + _MODEL_RUNS * done, total), total)
    ranked = rank(noise, candidates)
    orders = [ranked]
    if len(ranked) <= _FEW:
        orders.append(sorted(ranked, key=lambda name: (noise.decibels(name), ranked.index(name))))
    found = []
    for order in orders:
        guess = next(count for count in range(len(order) + 1) if noise.predicted(order[count:]) >= wanted)
        chosen = order[: search.fewest(order, guess)]
        found.append(search.without(chosen, _TRIES) if search(chosen) >= wanted else chosen)
    chosen = min(found, key=len)
    place = {name: number for number, name in enumerate(ranked, start=1)}
    choices = {
        name: Choice(
            names[name], name, "fp16" if name in chosen else "int8",
            f"int8 here alone leaves about {noise.decibels(name):.1f} dB, number {place[name]} of {len(ranked)} to "
            "become fp16", noise.decibels(name),
        )
        for name in candidates
    }  # fmt: skip
    return frozenset({*chosen, *always}), search(chosen), choices


Choose = Callable[..., tuple[frozenset[str], float, dict[str, Choice]]]
"""`choose_precision`, or what is called as it is."""


def mix(
    graph: Graph, build: Callable[[Graph], Model], judge: Judge | None, wanted: float,
    by_hand: Sequence[str], *, tell: Callable[[int, int], None], choose: Choose = choose_precision,
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
        chosen, decibels, measured = choose(
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
            reached = f"{decibels:.1f} dB" if choose is choose_precision else "the bound"
            entry = replace(entry, reason=f"all int8 reaches {reached}")
        elif op.output in graph.floats:
            entry = replace(entry, reason="int8 is not enough for this kind of operator")
        is_float = op.output in reasons or op.output in chosen  # a border that is gone has no operator any more
        choices.append(replace(entry, precision="fp16" if is_float else "int8"))
    return mixed, tuple(choices), decibels
