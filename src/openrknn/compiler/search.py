"""`accuracy_drop`: the cheapest model whose measured loss stays below a bound.

Recipes are tried in the order of what they cost on a board, and measured on calibration data (`accuracy.judge`):

1. int8 as it is made by default,
2. int8 with other ranges and with equalised channels, which takes no longer on the NPU,
3. int8 and fp16 in one model, as few operators in fp16 as the bound needs (`accuracy.precision`),
4. fp16.

The first one that holds the bound is taken. If none does, it is the one that loses least, and a warning says so.
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
_FEWEST, _MOST = 4, 16
_EVEN: dict[str, Any] = {"equalize": True}
RECIPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("equalised channels", _EVEN),
    ("equalised channels, ranges by mse", {**_EVEN, "method": "mse"}),
    ("equalised channels, ranges by percentile", {**_EVEN, "method": "percentile"}),
    ("ranges by minmax, weights to the nearest", {"method": "minmax", "adaptive_rounding": False}),
)
"""Ways to int8 that take no longer on the NPU. entropy is not among them: it loses everything on some networks."""
_BETTER = 0.9
"""What another way has to leave of a loss to be taken without being asked for."""


def improve(onnx: Any, options: CompileOptions, made: Compiled, check: Check) -> Compiled:
    """int8 that loses much, without a bound: the same with equalised channels, if that is measured to be better."""
    if made.graph.given or options.equalize or options.method != "cost":  # chosen by the user
        return made
    number, variant = _measured(made)
    judge = LossJudge(variant.source, variant.graph, variant.samples, made.preprocess)
    seen: dict[str, Statistics] = {}
    best, least = made, judge.loss(made.model, items_of(made.model, variant), number)[0]
    for _, changes in RECIPES[:2]:
        with suppress(CompileError):  # what cannot be made so stays as it was
            other = compile_stages(onnx, replace(options, **changes), seen)
            loss = judge.loss(other.model, items_of(other.model, variant), number)[0]
            if loss < _BETTER * least:
                best, least = other, loss
        if least <= LARGE_LOSS:
            break
    if best is not made:
        best.check = check(best)
    return best


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
    inputs: int = 0

    @property
    def bound(self) -> float:
        return share_of(self.options.accuracy_drop or 0)

    def run(self) -> Compiled:
        self._try("int8", self.options)
        best = self.options
        if not self.made[0][1].graph.given:  # a model that is quantised already keeps its scales
            for name, changes in RECIPES:
                if self._is_held:
                    break
                if any(getattr(self.options, key) != value for key, value in changes.items()):
                    before = min(entry[0] for entry in self.made)
                    asked = replace(self.options, **changes)
                    if self._try(f"int8, {name}", asked) < before:
                        best = asked
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

    def _try(self, name: str, options: CompileOptions, mixing: Mixing | None = None) -> float:
        asked = replace(options, accuracy_drop=None, metric=None)
        made = compile_stages(self.onnx, asked, self.seen.setdefault(asked.equalize, {}), mixing)
        if self.judge is None:
            self._make_judge(made)
        number, variant = _measured(made)
        assert self.judge is not None, "made above"
        loss, each = self.judge.loss(made.model, items_of(made.model, variant), number)
        self.attempts.append(Attempt(name, loss, min(entry.snr_db for entry in each), made.costs[1].time_ms))
        self.made.append((loss, made, each))
        return loss

    def _make_judge(self, made: Compiled) -> None:
        _, variant = _measured(made)
        cost = variant.costs[1]
        one = sum(entry.macs for entry in cost.operators) / _MACS_A_SECOND + cost.tasks / _TASKS_A_SECOND
        count = int(min(max(_SECONDS / one, _FEWEST), _MOST))
        feeds = feeds_for(
            self.options.calibration, variant.graph, made.preprocess, batch=items_of(made.model, variant),
            is_choosy=len(made.variants) > 1,
        )
        feeds.items = feeds.items[:: max(1, len(feeds.items) // count)]  # from everywhere, not the first ones
        chosen = list(islice(feeds, count)) or variant.samples
        self.inputs = len(chosen)
        self.judge = self._judge_with(variant, made, chosen)

    def _judge_with(self, variant: Variant, made: Compiled, chosen: list[Any]) -> LossJudge:
        return LossJudge(variant.source, variant.graph, chosen, made.preprocess, self.options.metric)

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
            self.bound, loss, attempt.name, self.inputs, tuple(self.attempts), tuple(each),
            "metric" if self.options.metric is not None else "float",
        )  # fmt: skip
        return made


def _measured(made: Compiled) -> tuple[int, Variant]:
    """The first choice of shapes that there are data for."""
    numbers = [number for number, variant in enumerate(made.variants) if variant.samples]
    number = numbers[0] if numbers else 0
    return number, made.variants[number]
