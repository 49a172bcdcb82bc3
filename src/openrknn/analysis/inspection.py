"""The whole report about a model: what its file says, what a board takes for it, what lint finds in its commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from openrknn.analysis.board_time import estimate_of
from openrknn.analysis.explain import describe
from openrknn.analysis.lint import Finding as LintFinding
from openrknn.analysis.lint.api import decoded_program, lint_decoded
from openrknn.analysis.lint.program import Decoded
from openrknn.analysis.reports import Finding, ModelReport, Severity
from openrknn.container.model import Model
from openrknn.cost import Work
from openrknn.cost.decoded import step_works
from openrknn.errors import RknnError
from openrknn.runtime.cost import cost_of


def report(model: Model, *, graph: int | None = None) -> ModelReport:
    """Everything that `openrknn inspect` knows; `graph` limits it to one of the shapes of a dynamic model.

    The commands are decoded once, for the estimate and for lint.
    """
    found = describe(model, graph=graph)
    if not model.graphs or any(finding.code == "damaged" for finding in found.findings):
        return found  # nothing in the commands can be trusted
    decoded = decoded_program(model)
    return _with_lint(_estimated(found, model, decoded), lint_decoded(model, decoded))


def _estimated(found: ModelReport, model: Model, decoded: Decoded | None) -> ModelReport:
    """With what one core of a board takes for it; files with errors and those without tasks stay as they are."""
    if not found.graphs or any(finding.severity is Severity.ERROR for finding in found.findings):
        return found
    graph = model.graphs[found.graphs[0].index]
    works = _works(decoded) if decoded is not None and decoded.graph is graph else None
    try:
        return replace(found, estimate=estimate_of(cost_of(model, graph=graph, works=works)))
    except RknnError:
        return found


def _works(decoded: Decoded) -> Mapping[int, Work]:
    """Task number -> its work; an operator of which a task cannot be decoded is left out."""
    works: dict[int, Work] = {}
    amounts = {number: task.amount for number, task in enumerate(decoded.graph.tasks)}
    for work in decoded.works:
        if not any(step.task in decoded.refused_tasks for step in work.steps):
            works |= step_works(work.steps, amounts, decoded.model.chip)
    return works


def _with_lint(found: ModelReport, commands: Iterable[LintFinding]) -> ModelReport:
    """The findings of `openrknn lint` in short: the same codes, without the way through the commands."""
    order = list(Severity)
    ranked = sorted([*found.findings, *map(_short, commands)], key=lambda item: -order.index(item.severity))
    return replace(found, findings=tuple(ranked))


def _short(item: LintFinding) -> Finding:
    subject = item.where.tensor or item.where.operator_name
    return Finding(item.code, item.severity, subject, item.what, item.why, item.change)
