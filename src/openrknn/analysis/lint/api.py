"""`lint`: everything that is worth saying about a model, the worst first."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from openrknn.analysis.explain import describe
from openrknn.analysis.lint.catalogue import RULES
from openrknn.analysis.lint.context import Context
from openrknn.analysis.lint.finding import Finding, Severity, Where
from openrknn.analysis.lint.program import Decoded, decode
from openrknn.container.check import problems
from openrknn.container.load import load
from openrknn.container.model import Model
from openrknn.container.parts import Graph
from openrknn.errors import RknnError

__all__ = ["lint", "lint_commands"]

_MOST = 8
"""Findings of one code that are listed; the rest are counted."""


def lint(model: Model | str | os.PathLike[str]) -> tuple[Finding, ...]:
    """Look for mistakes in a model or a file; nothing is run and no device is needed."""
    loaded = model if isinstance(model, Model) else load(model, strict=False)
    return _sorted([*_from_report(loaded), *lint_commands(loaded)])


def lint_commands(model: Model) -> tuple[Finding, ...]:
    """What the commands and scales alone say, without the findings of `openrknn inspect`."""
    found: list[Finding] = []
    if next(problems(model), None) is not None:
        return ()  # damaged: `inspect` says so, and nothing in it can be trusted
    for graph in model.graphs[:1]:
        context = Context(model, graph, _decoded(model, graph))
        for rule in RULES:
            found += _shortened(rule.check(context))
    return _sorted(found)


def _decoded(model: Model, graph: Graph) -> Decoded | None:
    try:
        return decode(model, graph)
    except RknnError:
        return None  # damaged, or without its weights: `inspect` says so


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
