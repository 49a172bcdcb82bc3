"""Every build is run before it is written: what the file computes has to be what the ONNX model computes.

Calibration data, or inputs of several sizes, go through ONNX in float and through the file on the software NPU: the
whole file once for each of its task lists, and every operator alone on the float model's numbers. The float model is
the imported one; that it computes what the given one does is checked first (`given`). Loss that the number format
explains is distinguished from a mistake in three steps, each only where the one before it did not suffice:

1. Close enough for the number format: right.
2. The float model with every value rounded as the file stores it (`rounded`) says what honest loss is here: a file that
   is about as far from float is right, however far that is. No constant decides, but the model's own sensitivity.
3. The first operator that departs on exact inputs is named, or else the first one that departs in a whole run.

    feeds        what the file is run on
    given        the imported model against the one that was given
    boundaries   operator by operator
    judge        limits, and what honest rounding costs
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from openrknn.compiler.check.boundaries import Boundary, compared, float_model_of, label_of, teacher_of, windows_of
from openrknn.compiler.check.feeds import Trial, trials_of
from openrknn.compiler.check.given import GivenModel
from openrknn.compiler.check.judge import CLOSE, decibels_text, departing, honest_outputs, is_close, is_faint, is_honest
from openrknn.compiler.check_result import CheckResult
from openrknn.compiler.errors import CalibrationError, CompileError, WrongResultError
from openrknn.compiler.ir import Array
from openrknn.compiler.quantise.threads import one_thread
from openrknn.compiler.result import Compiled, Variant
from openrknn.compiler.trials import choose_shapes, items_of, named, raw_inputs, run_items, shapes_text
from openrknn.distance import Distance, measure
from openrknn.errors import BudgetError, RknnError
from openrknn.runtime.inspector import Inspector
from openrknn.runtime.session import Session, inspector_of

__all__ = ["check"]

_TELLING_DB = 3.0
"""Rounding alone leaves so little of the signal that nothing can be told at the end."""
_FAR_DB = 10.0
"""Between operators that are right one by one int8 keeps more than that, where rounding alone leaves much more."""
_SCORE = 1e-3
"""Of 1: a lookup table's step. Scores that are all near 0 are right, however few decibels that is."""
_MACS_A_SECOND, _TASKS_A_SECOND = {True: 2e9, False: 2e7}, 500.0
"""Of the software NPU on one core; where ONNX Runtime is not installed the float model takes longer."""
_MANY, _FLAT_SHARE = 16, 0.25
"""Numbers that a channel has to have, and the share of such channels that is reported."""
_ALONE = 2.5
"""Running operator by operator, with all results compared, in runs of the whole."""
_ADVICE = (
    "This is a mistake of the compiler: please report it with the model. Cutting the model before that operator "
    "(--outputs) avoids it; --no-check writes the file all the same"
)

Tell = Callable[[str, int, int], None]


def check(compiled: Compiled, *, seconds: float = 60.0, tell: Tell | None = None) -> CheckResult:
    """What was found; raises `WrongResultError` where the file does not compute what the model does."""
    result = CheckResult(reason="")
    started = time.perf_counter()
    try:
        with one_thread(), np.errstate(all="ignore"):  # large inputs overflow, which the check reports itself
            for number, variant in enumerate(compiled.variants):
                share = seconds / len(compiled.variants)
                _Check(compiled, number, variant, result, tell or (lambda stage, done, of: None)).run(share)
    except (CalibrationError, BudgetError) as error:
        result.reason = str(error)
        result.warnings.append(result.text)
    result.seconds = time.perf_counter() - started
    return result


def _is_fast() -> bool:
    return importlib.util.find_spec("onnxruntime") is not None


@dataclass(slots=True)
class _Check:
    """Of one choice of input shapes."""

    compiled: Compiled
    number: int
    variant: Variant
    result: CheckResult
    tell: Tell
    sessions: dict[int, Session] = field(default_factory=dict)
    """The open one, by its number of cores."""
    first: tuple[Trial, dict[str, Array]] | None = None
    """What every operator alone is run on, with the float model's numbers; None: there is no time for that."""
    inspector: Inspector | None = None
    """Of the open session, if its decoded tasks are to run the operators alone too."""
    lost: dict[tuple[str, bool], tuple[str, Distance]] = field(default_factory=dict)
    """(output, on real or likely data) -> the words for the worst loss that rounding explains, and the loss."""
    alone: dict[int, list[Boundary]] = field(default_factory=dict)
    """By the id of the trial."""

    def run(self, seconds: float) -> None:
        trials = trials_of(self.compiled, self.variant)
        counts = sorted(self.variant.costs)
        one = self._estimate()
        runs = max(len(trials), len(counts))
        while len(trials) > 1 and one * (runs + _ALONE) > seconds:  # then fewer inputs; each task list has its run
            trials = trials[:-1]
            runs = max(len(trials), len(counts))
        if one * (runs + _ALONE) > seconds:  # then the list of one core, which has every operator
            counts, runs = counts[:1], 1
        is_short = one * (runs + _ALONE) <= seconds
        self._look_at_import(trials[:runs], is_short=is_short)
        model = float_model_of(self.variant)
        found: list[Boundary] = []
        try:
            for at in range(runs):
                trial = trials[at % len(trials)]
                self.tell("check", at, runs + 1)
                wanted = teacher_of(self.variant.graph, model, trial.feed)
                if at == 0 and is_short:
                    self.first = trial, wanted
                self._compare(trial, wanted, counts[at % len(counts)])
                if trial.data not in self.result.data:
                    self.result.data.append(trial.data)
            found = self._first_alone()
        finally:
            self._close()
        self.result.runs += runs
        self.result.tasks += sum(self.variant.costs[count].tasks for count in counts)
        self.result.of_tasks += sum(cost.tasks for cost in self.variant.costs.values())
        for (_, is_warning), (text, _) in self.lost.items():
            (self.result.warnings if is_warning else self.result.notes).append(text)
        self.result.operators += len({entry.operator for entry in found})
        self.result.of_operators += len(self.variant.lowering.program.steps)
        worst = min(found, key=lambda entry: entry.distance.snr_db, default=None)
        if worst is not None and worst.distance.snr_db < self.result.operator_db:
            self.result.operator, self.result.operator_db = worst.operator, worst.distance.snr_db
        odd = departing(self.variant, self.first[0].feed, self.first[1], found, self._form) if self.first else []
        if odd and not self.result.warnings:
            self.result.warnings.append(
                f"{odd[0].operator} alone keeps {decibels_text(odd[0].distance)} of float, although the outputs are "
                f"close; this may be a mistake of the compiler: please report it with the model"
            )

    def _look_at_import(self, trials: list[Trial], *, is_short: bool) -> None:
        """The imported model against the given one, in float."""
        try:
            if not is_short and not _is_fast():
                raise CalibrationError("without ONNX Runtime that takes too long")
            given = GivenModel(self.variant)
            for trial in trials:
                decibels, far = given.departures(trial.feed)
                self.result.import_db = min(self.result.import_db, decibels)
                # Inputs of other sizes may overflow on one of the two ways: what fp16 makes of them is told below.
                far = [entry for entry in far if trial.is_real or not entry.distance.overflowed]
                if far:
                    name, distance = far[0]
                    raise WrongResultError(
                        f"the imported model does not compute what the given one does: output {self._named(name)!r} "
                        f"has {decibels_text(distance)} on {trial.data}, both run in float. {_ADVICE}"
                    )
        except WrongResultError:
            raise
        except CompileError as error:
            self.result.import_reason = str(error)

    @property
    def _form(self) -> str:
        return self.compiled.format_name

    def _estimate(self) -> float:
        """Seconds of one run."""
        cost = self.variant.costs[1]
        macs = sum(entry.macs for entry in cost.operators)
        return float(macs / _MACS_A_SECOND[_is_fast()] + cost.tasks / _TASKS_A_SECOND)

    def _compare(self, trial: Trial, wanted: dict[str, Array], cores: int) -> None:
        """Run the file and look at its outputs."""
        found = self._outputs(trial, cores)
        bad: dict[str, Distance] = {}
        for name in self.variant.lowering.program.outputs:
            if name not in wanted:
                continue
            if found[name].size != wanted[name].size:
                raise WrongResultError(
                    f"the file that was made gives {name!r} {found[name].size} numbers instead of "
                    f"{wanted[name].size}. {_ADVICE}"
                )
            distance = measure(found[name], wanted[name])
            if trial.is_real and distance.snr_db < self.result.snr_db:
                self.result.snr_db, self.result.output = distance.snr_db, self._named(name)
            if trial.is_real:
                self._flat(name, found[name], wanted[name])
            is_score = name in self.variant.graph.scores and distance.largest_error <= _SCORE
            if is_score:
                continue
            if is_faint(distance, self._form):
                self._lost(trial, name, distance, f"where it is no larger than {distance.reference_max:.2g}")
            elif not is_close(distance, self._form):
                bad[name] = distance
        if bad:
            self._explain(trial, wanted, bad, cores)

    def _flat(self, name: str, found: Array, wanted: Array) -> None:
        """Channels that say nothing, beside others for which the scale is right: decibels do not show it."""
        if wanted.ndim < 3 or wanted.dtype.kind != "f":
            return
        for axis in {1, wanted.ndim - 1}:
            rows = [np.moveaxis(values.reshape(wanted.shape), axis, 0).reshape(wanted.shape[axis], -1)
                    for values in (found, wanted)]  # fmt: skip
            flat = [np.ptp(values.astype(np.float32), axis=1) == 0 for values in rows]
            lost = int((flat[0] & ~flat[1]).sum())
            if rows[0].shape[1] >= _MANY and lost >= max(1, _FLAT_SHARE * len(flat[0])):
                way = "Make outputs of the parts (--outputs)" + (", or compile fp16" if self._form != "fp16" else "")
                text = (
                    f"{lost} of {len(flat[0])} channels of output {self._named(name)!r} are constant, which they are "
                    f"not in float: their numbers are too small beside the others. {way}"
                )
                if text not in self.result.warnings:
                    self.result.warnings.append(text)
                return

    def _outputs(self, trial: Trial, cores: int) -> dict[str, Array]:
        compiled = self.compiled
        if cores not in self.sessions and self.inspector is not None:
            self._first_alone()
        try:
            if cores not in self.sessions:  # the last one's memory goes first
                self._close()
                self._open(cores)
            raw = raw_inputs(compiled, trial.feed)
            found = run_items(self.sessions[cores], [raw], items_of(compiled.model, self.variant))[0]
        except BudgetError:  # too large to be run here, which says nothing about it
            raise
        except (RknnError, ValueError) as error:  # shapes of the file that are not the model's
            who = self._who(getattr(error, "operator", None))
            raise WrongResultError(
                f"the file that was made does not run on the software NPU{who}: {error}. {_ADVICE}"
            ) from error

        if self.inspector is not None and not self.inspector.has_intact_weights:
            raise WrongResultError(f"the file that was made writes into its own weights. {_ADVICE}")
        return found

    def _open(self, cores: int) -> None:
        session = self.sessions[cores] = Session(self.compiled.model, "software", cores=cores)
        choose_shapes(session, self.number)
        if cores == 1 and self.first is not None and not self.alone:
            self.inspector = inspector_of(session, windows_of(self.variant))
            self.inspector.prepare()

    def _who(self, number: str | None) -> str:
        """The operator that an error of the NPU is about."""
        model = self.compiled.model
        found = [entry for entry in model.operators_of(model.graphs[self.number]) if str(entry.index) == number]
        program = self.variant.program or self.variant.lowering.program
        named = {tensor.name for entry in found for tensor in entry.outputs}
        steps = [step for step in program.steps if named.intersection(step.outputs)]
        return f" (operator {label_of(steps[0], steps[0].name)})" if steps else ""

    def _close(self) -> None:
        self.inspector = None
        while self.sessions:
            self.sessions.popitem()[1].close()

    def _named(self, name: str) -> str:
        return named(name, shapes_text(self.compiled, self.variant))

    def _explain(self, trial: Trial, wanted: dict[str, Array], bad: dict[str, Distance], cores: int) -> None:
        """Honest loss is said, a mistake raised."""
        name = min(bad, key=lambda entry: bad[entry].snr_db)
        is_int8 = self._form != "fp16"
        honest = honest_outputs(self.variant, trial.feed, wanted, list(bad), is_int8=is_int8)
        mistaken = [entry for entry in bad if entry not in honest or not is_honest(bad[entry], honest[entry])]
        if not mistaken:
            self._lost(trial, name, bad[name])
            return
        name = min(mistaken, key=lambda entry: bad[entry].snr_db)
        first = self._blamed(trial, wanted)
        # int8 has values that ONNX does not: they cost something where no operator is wrong.
        is_far = not is_int8 or bad[name].snr_db < _FAR_DB
        is_far = is_far and wanted[name].dtype.kind == "f"
        is_telling = name in honest and is_far and (honest[name].snr_db > _TELLING_DB or not is_int8)
        if not first and not is_telling:
            self._lost(trial, name, bad[name])
            return
        where = f"the first operator that departs is {first}" if first else "no operator alone departs from it"
        usual = f" (rounding costs as much as leaves {honest[name].snr_db:.1f} dB)" if name in honest else ""
        lists = f" on {cores} cores" if cores > 1 else ""
        text = f"output {self._named(name)!r} has {decibels_text(bad[name])} against ONNX in float{usual}; {where}"
        if trial.is_real:
            raise WrongResultError(
                f"the file that was made does not compute what the model does{lists}: {text}. {_ADVICE}"
            )
        self.result.warnings.append(f"on {trial.data} {text}")

    def _lost(self, trial: Trial, name: str, distance: Distance, why: str = "") -> None:
        """Rounding explains it, or `why`."""
        if distance.snr_db >= CLOSE[self._form].decibels:
            return
        kind = "fp16" if self._form == "fp16" else "int8"
        way = "numbers beyond 65504 or lost digits" if kind == "fp16" else "--accuracy-drop 1% or more calibration data"
        why = why or f"as rounding alone costs ({way})"
        text = f"output {self._named(name)!r} keeps {decibels_text(distance)} of float in {kind} on {trial.data}, {why}"
        key = name, trial.is_real or trial.is_likely
        if key not in self.lost or distance.snr_db < self.lost[key][1].snr_db:
            self.lost[key] = text, distance

    def _blamed(self, trial: Trial, wanted: dict[str, Array]) -> str:
        """The first operator that departs on exact inputs, else the first one in a whole run; "" if there is none."""
        alone = self._alone(trial, wanted)
        odd = departing(self.variant, trial.feed, wanted, alone, self._form)
        if odd:
            return f"{odd[0].operator} ({decibels_text(odd[0].distance)} alone)"
        return self._first_in_a_run(trial, wanted, alone)

    def _first_in_a_run(self, trial: Trial, wanted: dict[str, Array], alone: list[Boundary]) -> str:
        """Where an operator overwrites what another one still needs, each of them alone is right."""
        right = {entry.value for entry in alone if is_close(entry.distance, self._form)}
        for entry in compared(self.compiled, self.number, trial.feed, wanted, alone=False, shared=self.inspector):
            # The smallest rounding moves an index by whole steps: only an operator alone is wrong about those.
            is_number = entry.value not in wanted or wanted[entry.value].dtype.kind == "f"
            if is_number and entry.value in right and not is_close(entry.distance, self._form):
                honest = honest_outputs(self.variant, trial.feed, wanted, [entry.value], is_int8=self._form != "fp16")
                if entry.value in honest and not is_honest(entry.distance, honest[entry.value]):
                    return f"{entry.operator} ({decibels_text(entry.distance)}; alone it is right)"
        return ""

    def _first_alone(self) -> list[Boundary]:
        """While the session is open whose tasks it uses."""
        return self._alone(*self.first) if self.first is not None else []

    def _alone(self, trial: Trial, teacher: dict[str, Array]) -> list[Boundary]:
        """Every operator on the float model's numbers."""
        if id(trial) not in self.alone:
            self.alone[id(trial)] = list(
                compared(
                    self.compiled, self.number, trial.feed, teacher, alone=True, shared=self.inspector,
                    tell=lambda done, of: self.tell("check", done, of),
                )
            )  # fmt: skip
        return self.alone[id(trial)]
