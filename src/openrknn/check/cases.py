"""Runs the cases of a golden folder: arrays in and out, pictures to answers, sound to text."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.analysis.reports import Severity
from openrknn.check.answer import Answer
from openrknn.check.compare_answers import judge_answer, judge_transcript
from openrknn.check.errors import CannotCheckError, GoldenError
from openrknn.check.golden import Case, Golden
from openrknn.check.inputs import SOUNDS, arrays_of, expected_outputs
from openrknn.check.result import Check, Finding, Status
from openrknn.check.subject import Subject
from openrknn.check.tensors import Changed, Trace, Traces, compare_traces
from openrknn.check.tolerance import Tolerance, judge, measured
from openrknn.closing import Closing
from openrknn.container.model import TensorSpec
from openrknn.errors import RknnError
from openrknn.runtime.session import Session

Array: TypeAlias = npt.NDArray[Any]

_PROBLEMS = (RknnError, ValueError, TypeError, OSError, ImportError)
"""What a file, a model or a device can come to; anything else is a bug in openrknn."""


class Runner(Closing):
    """A model that is open for the cases of its golden; whatever they need is opened once."""

    def __init__(self, subject: Subject, device: str = "auto", cores: int | None = None) -> None:
        self.subject, self.device, self.cores = subject, device, cores
        self._stack = ExitStack()
        self._session: Session | None = None
        self._pipelines: dict[tuple[Any, ...], Any] = {}

    def close(self) -> None:
        """Give the sessions and pipelines back."""
        self._stack.close()

    # -- what it computes ----------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """Opened when the first case needs it."""
        if self._session is None:
            source: Any = self.subject.bundle or self.subject.model
            if source is None:
                raise CannotCheckError(f"{self.subject.path}: a voice takes sound; expect a transcript of it")
            try:
                opened = Session(source, device=self.device, cores=self.cores)
            except (ValueError, TypeError, OSError) as error:
                raise CannotCheckError(f"cannot be opened on {self.device!r}: {error}") from error
            self._session = self._stack.enter_context(opened)
        return self._session

    @property
    def device_name(self) -> str:
        """Where it ran; empty if it has not."""
        return self._session.device.name if self._session is not None else ""

    def arrays(self, case: Case) -> dict[str, Array]:
        """The inputs of a case."""
        return arrays_of(case, self.specs(inputs=True), self.subject.model)

    def specs(self, *, inputs: bool = False) -> tuple[TensorSpec, ...]:
        """Inputs or outputs."""
        model = self.subject.model
        source = self.session if model is None else model
        return source.inputs if inputs else source.outputs

    def outputs(self, case: Case, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Real numbers by the names of the outputs."""
        try:
            found = self.session.run(dict(arrays), layout=case.layout)
        except ValueError as error:
            raise CannotCheckError(f"case {case.name!r}: {error}") from error
        return {name: np.asarray(value) for name, value in found.items()}

    def answer(self, case: Case) -> Any:
        """The result of `openrknn.vision` for the picture of a case."""
        if len(case.inputs) != 1:
            raise CannotCheckError(f"case {case.name!r}: an answer is given to one picture, not to {len(case.inputs)}")
        path = next(iter(case.inputs.values()))
        if not path.is_file():
            raise GoldenError("no such file; golden.toml names it", path=str(path))
        return self._pipeline(case)(path)

    def transcript(self, case: Case) -> str:
        """What a voice hears in the sound of a case."""
        if not self.subject.is_voice:
            raise CannotCheckError(f"{self.subject.path}: transcripts need the folder of a voice, not a single model")
        from openrknn.voice.transcriber import Transcriber

        path = next(iter(case.inputs.values()))
        if path.suffix.lower() not in SOUNDS:
            raise GoldenError(f"is no sound; there are {', '.join(SOUNDS)}", path=str(path))
        key = ("transcriber",)
        if key not in self._pipelines:
            self._pipelines[key] = self._stack.enter_context(Transcriber(self.subject.path, self.device))
        return str(self._pipelines[key](path).text)

    def _pipeline(self, case: Case) -> Any:
        from openrknn.vision.ocr import TextReader
        from openrknn.vision.pipeline import Pipeline

        key = (case.task, case.family, case.threshold, case.fit, case.order, case.labels, case.reader)
        if key not in self._pipelines:
            if self.subject.model is None:
                raise CannotCheckError(f"{self.subject.path}: answers need a single .rknn; expect outputs instead")
            labels = None
            if case.labels is not None:
                lines = case.labels.read_text("utf-8", errors="replace").removesuffix("\n").split("\n")
                labels = [line.strip() for line in lines]
            session: Any = self.session  # its `run` has overloads, and answers like a pool's
            made = Pipeline(
                self.subject.model,
                task=case.task,
                family=case.family,
                labels=labels,
                threshold=case.threshold,
                fit=None if case.fit == "auto" else case.fit,
                order=None if case.order == "auto" else case.order,
                pool=session,  # weights are packed once for outputs and answers
            )
            whole: Any = made
            if case.reader is not None:
                whole = TextReader(made, Pipeline(str(case.reader), device=self.device))
            self._pipelines[key] = self._stack.enter_context(whole)
        return self._pipelines[key]

    # -- what it checks ------------------------------------------------------------------------------------------

    def check(self, case: Case, golden: Golden, traces: Traces | None) -> Iterator[Check]:
        """One check for the outputs, one for the answer."""
        then = (traces or {}).get(case.name, {})
        if case.outputs is not None:
            yield self._timed(f"outputs of {case.name}", case, lambda: self._outputs(case, golden, then))
        if case.answer is not None:
            answer = case.answer
            yield self._timed(f"answer to {case.name}", case, lambda: self._answers(case, answer))

    def _timed(self, name: str, case: Case, work: Any) -> Check:
        started = time.perf_counter()
        try:
            status, text, findings, numbers = work()
        except _PROBLEMS as error:
            return failed_to_check(name, str(error), case.name, self.subject.path, time.perf_counter() - started)
        return Check(name, status, text, tuple(findings), time.perf_counter() - started, numbers)

    def _outputs(self, case: Case, golden: Golden, then: Mapping[str, Trace]) -> Any:
        arrays = self.arrays(case)
        specs = {spec.name: spec for spec in self.specs()}
        expected = expected_outputs(case.outputs, list(specs.values())) if case.outputs else {}
        found = self.outputs(case, arrays)
        findings: list[Finding] = []
        texts, numbers = [], {}
        for name, wanted in expected.items():
            limit: Tolerance = case.tolerances.get(name, case.tolerance)
            wrong, text = judge(found[name], wanted, limit, specs[name])
            texts.append(f"{name}: {text}" if len(expected) > 1 else text)
            if found[name].size == wanted.size:
                numbers[name] = measured(
                    found[name].astype(np.float64).reshape(-1), wanted.astype(np.float64).reshape(-1), specs[name]
                ).as_json()
            findings += [self._finding("output-differs", f"output {name!r}: {line}", case) for line in wrong]
        status = Status.FAILED if findings else Status.PASSED
        follow = golden.integrity.tensors
        if follow == "always" or (follow == "on-failure" and findings):
            blame, is_bad = self._blame(case, arrays, then)
            findings += blame
            if is_bad and follow == "always":
                status = Status.FAILED
        return status, "; ".join(dict.fromkeys(texts)), findings, numbers

    def _blame(self, case: Case, arrays: Mapping[str, Array], then: Mapping[str, Trace]) -> tuple[list[Finding], bool]:
        """The operator whose result is the first that differs."""
        if self.subject.model is None or not then:
            return [], False
        try:
            changed = list(compare_traces(self.subject.model, arrays, case.layout, then))
        except _PROBLEMS as error:
            text = f"the operator could not be found: {error}"
            return [self._finding("first-difference", text, case, Severity.NOTE)], False
        if not changed:
            text = "every tensor on the software NPU is as recorded: the device or the expected file is another one"
            return [self._finding("first-difference", text, case, Severity.NOTE)], False
        return [self._blamed(case, entry) for entry in changed], True

    def _blamed(self, case: Case, changed: Changed) -> Finding:
        text = f"its result {changed.tensor!r} is the first that differs {changed.text}"
        if changed.operator is None:
            text = f"the input {changed.tensor!r} differs {changed.text}: its scale or normalisation is another one"
        code = "saturated" if changed.saturated else "first-difference"
        return Finding(code, Severity.ERROR, text, changed.operator, case.name, self.subject.path)

    def _answers(self, case: Case, answer: Answer) -> Any:
        if answer.transcript is not None:
            wrong, text = judge_transcript(self.transcript(case), answer.transcript, answer.word_errors)
        else:
            wrong, text = judge_answer(self.answer(case), answer)
        findings = [self._finding("answer-differs", line, case) for line in wrong]
        return Status.FAILED if findings else Status.PASSED, text, findings, {}

    def _finding(self, code: str, text: str, case: Case, severity: Severity = Severity.ERROR) -> Finding:
        return Finding(code, severity, text, case=case.name, file=self.subject.path)


def failed_to_check(name: str, text: str, case: str = "", file: str = "", seconds: float = 0.0) -> Check:
    """A check that could not be done."""
    finding = Finding("cannot-check", Severity.ERROR, text, case=case, file=file)
    return Check(name, Status.ERROR, "cannot be checked", (finding,), seconds)
