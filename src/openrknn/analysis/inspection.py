"""The whole report about a model: what its file says, what a board takes for it, what lint finds in its commands."""

from __future__ import annotations

from dataclasses import replace

from openrknn.analysis.board_time import estimate_of
from openrknn.analysis.explain import describe
from openrknn.analysis.lint import Finding as LintFinding
from openrknn.analysis.lint import lint_commands
from openrknn.analysis.reports import Finding, ModelReport, Severity
from openrknn.container.model import Model
from openrknn.errors import RknnError
from openrknn.runtime.cost import cost_of

__all__ = ["report"]


def report(model: Model, *, graph: int | None = None) -> ModelReport:
    """Everything that `openrknn inspect` knows; `graph` limits it to one of the shapes of a dynamic model."""
    return _with_lint(_estimated(describe(model, graph=graph), model), model)


def _estimated(found: ModelReport, model: Model) -> ModelReport:
    """With what one core of a board takes for it; damaged files and those without tasks stay as they are."""
    if not found.graphs or any(finding.severity is Severity.ERROR for finding in found.findings):
        return found
    try:
        return replace(found, estimate=estimate_of(cost_of(model, graph=model.graphs[found.graphs[0].index])))
    except RknnError:
        return found


def _with_lint(found: ModelReport, model: Model) -> ModelReport:
    """The findings of `openrknn lint` in short: the same codes, without the way through the commands."""
    order = list(Severity)
    ranked = sorted([*found.findings, *map(_short, lint_commands(model))], key=lambda item: -order.index(item.severity))
    return replace(found, findings=tuple(ranked))


def _short(item: LintFinding) -> Finding:
    subject = item.where.tensor or item.where.operator_name
    return Finding(item.code, item.severity, subject, item.what, item.why, item.change)
