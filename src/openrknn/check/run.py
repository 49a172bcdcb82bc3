"""`check`: one model against one golden folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from openrknn.check.budgets import budget_checks, costs_of
from openrknn.check.cases import Runner, failed_to_check
from openrknn.check.errors import CannotCheckError, GoldenError
from openrknn.check.fields import near
from openrknn.check.fingerprint import Fingerprint, fingerprint
from openrknn.check.golden import Case, Golden, load_golden
from openrknn.check.integrity import integrity_checks, read_fingerprint
from openrknn.check.lints import lint_check
from openrknn.check.result import Check, Outcome
from openrknn.check.subject import Subject, open_subject
from openrknn.check.tensors import Traces
from openrknn.container.model import Model
from openrknn.errors import RknnError

Progress = Callable[[str, int, int], None]
"""Told (stage, done, of)."""


def check(
    model: str | os.PathLike[str] | Model,
    golden: str | Path | Golden,
    *,
    device: str = "auto",
    cores: int | None = None,
    only: Sequence[str] = (),
    progress: Progress | None = None,
) -> Outcome:
    """Compare a model with a golden folder.

    `only`: names of the cases to run; weights, budgets and lint are left out then. What cannot be read raises
    `GoldenError` or `CannotCheckError`; a case that cannot be run is a check with the status "error".
    """
    started = time.perf_counter()
    known = golden if isinstance(golden, Golden) else load_golden(golden)
    cases = chosen_cases(known, only)
    subject = open_subject(model)
    then, traces = read_fingerprint(known.integrity.file) if known.integrity.file else (None, {})
    tell = progress or (lambda stage, done, of: None)
    with Runner(subject, device, cores) as runner:
        checks: list[Check] = []
        if not only:
            tell("file", 0, 1)
            checks += _of_the_file(subject, known, then)
        checks += _of_the_cases(runner, cases, known, traces, tell)
        place = runner.device_name
    return Outcome(
        model=subject.path,
        golden=str(known.folder),
        checks=tuple(checks),
        chip=subject.chip,
        device=place,
        seconds=time.perf_counter() - started,
    )


def chosen_cases(golden: Golden, only: Sequence[str]) -> tuple[Case, ...]:
    """All of them, or those that are asked for."""
    names = [case.name for case in golden.cases]
    for name in only:
        if name not in names:
            raise GoldenError(f"there is no case {name!r}{near(name, names)}", path=golden.path)
    return tuple(case for case in golden.cases if not only or case.name in only)


def unreadable(model: str, golden: str, error: Exception) -> Outcome:
    """An outcome for what could not even be begun, so that others are still checked."""
    name = "golden" if isinstance(error, GoldenError) else "model"
    check = failed_to_check(name, str(error), file=getattr(error, "path", "") or model)
    return Outcome(model, golden, (check,))


def _of_the_file(subject: Subject, golden: Golden, then: Fingerprint | None) -> Iterator[Check]:
    """What needs no run."""
    if golden.chip and golden.chip != subject.chip:
        raise CannotCheckError(f"{subject.path}: built for {subject.chip}; {golden.path} is for {golden.chip}")
    if then is not None:
        yield from _clocked(integrity_checks(fingerprint(subject), then, golden.integrity, subject.path))
    yield from _clocked(budget_checks(costs_of(subject), golden.budget, then, golden.path, subject.path))
    if golden.lint is not None:
        started = time.perf_counter()
        try:
            found = lint_check(subject, golden.lint)
        except RknnError as error:
            found = failed_to_check("lint", str(error), file=subject.path)
        yield _with_seconds(found, time.perf_counter() - started)


def _clocked(checks: Iterator[Check]) -> Iterator[Check]:
    started = time.perf_counter()
    for found in checks:
        now = time.perf_counter()
        yield _with_seconds(found, now - started)
        started = now


def _with_seconds(found: Check, seconds: float) -> Check:
    return Check(found.name, found.status, found.text, found.findings, seconds, found.numbers)


def _of_the_cases(
    runner: Runner, cases: Sequence[Case], golden: Golden, traces: Traces, tell: Progress
) -> Iterator[Check]:
    for number, case in enumerate(cases):
        tell("cases", number, len(cases))
        yield from runner.check(case, golden, traces)
    tell("cases", len(cases), len(cases))
