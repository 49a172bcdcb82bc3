"""`accuracy_drop`: the cheapest model whose measured loss stays below a bound.

Recipes are tried in the order of what they cost on a board, and measured on calibration data (`accuracy.judge`):

1. int8 as it is made by default,
2. int8 with other ranges and with equalised channels, which takes no longer on the NPU,
3. int8 and fp16 in one model, as few operators in fp16 as the bound needs (`accuracy.precision`),
4. fp16.

The first one that holds the bound is taken. If none does, it is the one that loses least, and a warning is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from openrknn.compiler.accuracy.judge import LossJudge
from openrknn.compiler.accuracy.outputs import OutputLoss
from openrknn.compiler.accuracy.precision import choose_by_time
from openrknn.compiler.accuracy_result import AccuracyResult, Attempt
from openrknn.compiler.calibration import feeds_for
from openrknn.compiler.check_result import LARGE_LOSS, CheckResult
from openrknn.compiler.errors import CompileError
from openrknn.compiler.options import CompileOptions, share_of
from openrknn.compiler.pipeline import Mixing, compile_stages
from openrknn.compiler.quantise.statistics import Statistics
from openrknn.compiler.result import Compiled, Variant
from openrknn.compiler.targets import target_of
from openrknn.compiler.trials import items_of

Check = Callable[[Compiled], CheckResult]

_MACS_A_SECOND, _TASKS_A_SECOND = 2e9, 500.0
_SECONDS = 8.0
"""Of the software NPU for each model that is measured, by estimate: says how many inputs it is measured on."""
_SHORT_SECONDS = 3.0
"""The same where no bound was asked for."""
_FEWEST, _MOST = 4, 16
_LEAST = 2
"""Inputs that say anything about a model without a bound."""
_EVEN: dict[str, Any] = {"equalize": True}
RECIPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("equalised channels", _EVEN),
    ("equalised channels, ranges by mse", {**_EVEN, "method": "mse"}),
    ("equalised channels, ranges by percentile", {**_EVEN, "method": "percentile"}),
    ("ranges by minmax, weights to the nearest", {"method": "minmax", "adaptive_rounding": False}),
)
"""Ways to int8 that take no longer on the NPU. entropy is not among them: it loses everything on some networks."""
_BETTER, _GAIN_DB = 0.9, 3.0
"""What another way has to leave of a loss to be better; or it loses about as much, and its outputs have so much less
noise in the mean: of a few scores and classes the loss alone is a matter of chance."""


def improved(onnx: Any, options: CompileOptions, made: Compiled, check: Check) -> Compiled:
    """A model without a bound, measured: where int8 loses much, equalised channels if they lose less, or a warning."""
    judge = _judge_for(made, options, _SHORT_SECONDS)
    if judge is None:
        return made
    number, variant = _measured(made)
    items = items_of(made.model, variant)
    best, (least, each) = made, judge.loss(made.model, items, number)
    is_chosen = made.graph.given or options.equalize or options.method != "cost" or made.format_name != "int8"
    seen: dict[str, Statistics] = {}
    for _, changes in () if is_chosen else RECIPES[:2]:
        if least <= LARGE_LOSS:
            break
        with suppress(CompileError):  # what cannot be made so stays as it was
            other = compile_stages(onnx, replace(options, **changes), seen)
            loss, others = judge.loss(other.model, items, number)
            if _is_better((loss, others), (least, each)):
                best, least, each = other, loss, others
    if best is not made:
        best.check = check(best)
    best.check.loss, best.check.losses = least, [entry.as_json() for entry in each]
    worst = max(each, key=lambda entry: entry.loss)
    if least > LARGE_LOSS and not any(repr(worst.output) in text for text in best.check.warnings):
        best.check.warnings.append(
            f"int8 loses {least:.1%} of output {worst.output!r} on {len(judge.feeds)} calibration inputs "
            f"({worst.measure}, {worst.snr_db:.1f} dB): --accuracy-drop 1% looks for a model that does not"
        )
    return best


def _is_better(new: tuple[float, list[OutputLoss]], old: tuple[float, list[OutputLoss]]) -> bool:
    gain = sum(entry.snr_db for entry in new[1]) - sum(entry.snr_db for entry in old[1])
    return new[0] < _BETTER * old[0] or (new[0] * _BETTER <= old[0] and gain > _GAIN_DB * len(new[1]))


def _judge_for(made: Compiled, options: CompileOptions, seconds: float) -> LossJudge | None:
    """On inputs from all over the calibration data, as many as take so long by estimate; None: one is too few."""
    _, variant = _measured(made)
    cost = variant.costs[1]
    # A model whose operators are all the CPU's has no task.
    tasks = max(cost.tasks, 1)
    one = sum(entry.macs for entry in cost.operators) / _MACS_A_SECOND + tasks / _TASKS_A_SECOND
    count = int(min(max(seconds / one, _FEWEST), _MOST))
    feeds = feeds_for(
        options.calibration, variant.graph, made.preprocess, batch=items_of(made.model, variant),
        is_choosy=len(made.variants) > 1,
    )
    feeds.items = feeds.items[:: max(1, len(feeds.items) // count)]
    chosen = list(islice(feeds, count)) or variant.samples
    if len(chosen) < _LEAST and options.accuracy_drop is None:
        return None
    return LossJudge(variant.source, variant.graph, chosen, made.preprocess, options.metric)


def search(onnx: Any, options: CompileOptions) -> Compiled:
    """The cheapest model that holds `options.accuracy_drop`."""
    found = _Search(onnx, options).run()
    accuracy = found.accuracy
    if accuracy is not None and not accuracy.is_held:
        accuracy.warning = (
            f"accuracy_drop {accuracy.bound:.2%} cannot be held: the best that was found loses {accuracy.loss:.2%} "
            f"({accuracy.chosen}); calibrate with more data as in real use, or allow more"
        )
    return found


@dataclass(slots=True)
class _Search:
    onnx: Any
    options: CompileOptions
    seen: dict[bool, dict[str, Statistics]] = field(default_factory=dict)
    """What calibration saw: equalised channels have other ranges."""
    judge: LossJudge | None = None
    attempts: list[Attempt] = field(default_factory=list)
    made: list[tuple[float, Compiled, list[OutputLoss]]] = field(default_factory=list)

    @property
    def bound(self) -> float:
        return share_of(self.options.accuracy_drop or 0)

    def run(self) -> Compiled:
        self._try("int8", self.options)
        best, at = self.options, 0
        if not self.made[0][1].graph.given:  # a model that is quantised already keeps its scales
            for name, changes in RECIPES:
                if self._is_held:
                    break
                if any(getattr(self.options, key) != value for key, value in changes.items()):
                    asked = replace(self.options, **changes)
                    self._try(f"int8, {name}", asked)
                    if _is_better(self.made[-1][::2], self.made[at][::2]):
                        best, at = asked, len(self.made) - 1
        target = target_of(self.options.chip)
        if not self._is_held and target.can_mix:
            self._try("int8 and fp16", best, Mixing(self._judge_of, choose_by_time, -self.bound))
        if target.has_fp16 and not self.made[0][1].graph.given and not self._is_cheap():
            plain = replace(self.options, accuracy_drop=None, metric=None, fp16=True, equalize=False, fp16_layers=())
            with suppress(CompileError):  # an operator that needs calibration data
                self._try("fp16", plain)
        return self._chosen()

    @property
    def _is_held(self) -> bool:
        return self.made[-1][0] <= self.bound

    def _is_cheap(self) -> bool:
        """Whether what holds is int8 alone, which fp16 is never faster than."""
        return self._is_held and self.made[-1][1].format_name == "int8"

    def _try(self, name: str, options: CompileOptions, mixing: Mixing | None = None) -> None:
        asked = replace(options, accuracy_drop=None, metric=None)
        if asked.progress is not None:
            asked.progress("recipe", len(self.attempts), len(RECIPES) + 3)
        made = compile_stages(self.onnx, asked, self.seen.setdefault(asked.equalize, {}), mixing)
        self.judge = self.judge or _judge_for(made, self.options, _SECONDS)
        number, variant = _measured(made)
        assert self.judge is not None, "a bound is measured on one input, too"
        loss, each = self.judge.loss(made.model, items_of(made.model, variant), number)
        self.attempts.append(Attempt(name, loss, min(entry.snr_db for entry in each), made.costs[1].time_ms))
        self.made.append((loss, made, each))

    def _judge_of(self) -> LossJudge:
        assert self.judge is not None, "int8 was measured first"
        return self.judge

    def _chosen(self) -> Compiled:
        """What is fastest of all that hold the bound; else what loses least."""
        held = [number for number, entry in enumerate(self.made) if entry[0] <= self.bound]
        if held:
            chosen = min(held, key=lambda number: (self.made[number][1].costs[1].cycles, number))
        else:
            chosen = min(range(len(self.made)), key=lambda number: (self.made[number][0], number))
        loss, made, each = self.made[chosen]
        attempt = self.attempts[chosen]
        made.mixed_snr_db = None
        made.accuracy = AccuracyResult(
            self.bound, loss, attempt.name, len(self._judge_of().feeds), tuple(self.attempts), tuple(each),
            "metric" if self.options.metric is not None else "float",
        )  # fmt: skip
        return made


def _measured(made: Compiled) -> tuple[int, Variant]:
    """The first choice of shapes that there are data for."""
    numbers = [number for number, variant in enumerate(made.variants) if variant.samples]
    number = numbers[0] if numbers else 0
    return number, made.variants[number]
