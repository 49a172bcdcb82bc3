"""`lint`: everything that is worth saying about a model, the worst first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from openrknn.analysis.explain import describe
from openrknn.analysis.lint.catalogue import RULES
from openrknn.analysis.lint.context import LintContext
from openrknn.analysis.lint.finding import Finding, Severity, Where
from openrknn.analysis.lint.program import Decoded, decode
from openrknn.container.check import problems
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.errors import RknnError

_MOST = 8
"""Findings of one code that are listed; the rest are counted."""


def lint(model: Model | str | os.PathLike[str], *, run: bool = False) -> tuple[Finding, ...]:
    """Look for mistakes in a model or a file; no device is needed.

    Nothing is run, unless `run` asks whether the outputs depend on the inputs: four runs on the software NPU.
    """
    loaded = model if isinstance(model, Model) else load(model, strict=False)
    return _sorted([*_from_report(loaded), *lint_commands(loaded, run=run)])


def lint_commands(model: Model, *, run: bool = False) -> tuple[Finding, ...]:
    """What the commands and scales alone say, without the findings of `openrknn inspect`."""
    if next(problems(model), None) is not None:
        return ()  # damaged: `inspect` says so, and nothing in it can be trusted
    return lint_decoded(model, decoded_program(model), run=run)


def lint_decoded(model: Model, decoded: Decoded | None, *, run: bool = False) -> tuple[Finding, ...]:
    """`lint_commands` of a file that is not damaged; `decoded`: its first graph, None where it cannot be decoded."""
    found: list[Finding] = []
    for graph in model.graphs[:1]:
        context = LintContext(model, graph, decoded, run)
        for rule in RULES:
            found += _shortened(rule.findings(context))
    return _sorted(found)


def decoded_program(model: Model) -> Decoded | None:
    """The first graph, decoded; None if that cannot be done: damaged, or without its weights."""
    try:
        return decode(model, model.graphs[0]) if model.graphs else None
    except RknnError:
        return None


def _shortened(found: Iterable[Finding]) -> Iterator[Finding]:
    rest: list[Finding] = []
    for number, finding in enumerate(found):
        if number < _MOST:
            yield finding
        else:
            rest.append(finding)
    if rest:
        yield Finding(rest[0].code, rest[0].severity, Where(), f"... and {len(rest)} more of these")


def _from_report(model: Model) -> Iterator[Finding]:
    for finding in describe(model).findings:
        where = Where(tensor=finding.subject)
        yield Finding(finding.code, finding.severity, where, finding.what, finding.why, finding.action)


def _sorted(found: Iterable[Finding]) -> tuple[Finding, ...]:
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: -order.index(finding.severity)))
