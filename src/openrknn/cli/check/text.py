"""What `openrknn check` prints: a table of checks, and below it what was found, with the operator in front."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.table import Table
from rich.text import Text

from openrknn.analysis.reports import Severity
from openrknn.check.result import Finding, Outcome, Status
from openrknn.cli.common.output import Output, printable
from openrknn.cli.common.tables import indented, table, title
from openrknn.quantities import count_of, duration

__all__ = ["next_step", "show"]

_MARKS = {
    Status.PASSED: ("ok", "green"),
    Status.FAILED: ("FAIL", "bold red"),
    Status.SKIPPED: ("skip", "cyan"),
    Status.ERROR: ("ERROR", "bold red"),
}
_STYLES = {Severity.NOTE: "cyan", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}


def show(outcomes: Sequence[Outcome], output: Output) -> None:
    """All models; in quiet mode a line for each finding that fails or warns."""
    for outcome in outcomes:
        if not output.is_human:
            for finding in outcome.findings:
                if finding.severity is not Severity.NOTE:
                    output.value(f"{outcome.model or outcome.golden}: {finding.severity}: {finding.code}: {finding}")
            continue
        output.show(title(printable(outcome.model or outcome.golden)))
        if outcome.model and outcome.golden:
            where = f" on {outcome.device}" if outcome.device else ""
            output.show(*indented(Text(printable(f"against {outcome.golden}{where}"), "dim")))
        if len(outcome.checks) > 1 or outcome.passed:
            output.show(*indented(_checks(outcome)))
        found = [finding for finding in outcome.findings if finding.severity is not Severity.NOTE or finding.case]
        if found:
            output.show(Text(""), *indented(_findings(found)))
        output.show(Text(""), *indented(_verdict(outcome)))
    if len(outcomes) > 1 and output.is_human:
        bad = sum(not outcome.passed for outcome in outcomes)
        text = f"{count_of(len(outcomes), 'model')}: " + (f"{bad} not as expected" if bad else "all as expected")
        output.show(title(text))
    if output.is_human:
        output.next_step(next_step(outcomes))


def next_step(outcomes: Sequence[Outcome]) -> str:
    """What to do now; the page shows it, too."""
    failed = next((outcome for outcome in outcomes if not outcome.passed), None)
    if failed is None:
        return "run this check for every change: docs/ci.md has recipes for GitHub, GitLab and pre-commit"
    if failed.count(Status.ERROR) or not failed.golden:
        advice = next((finding.do for finding in failed.findings if finding.do), "")
        return advice or "`openrknn check MODEL --record DIR` records what the model does now"
    return f"if the change is intended, record it: `openrknn check {failed.model} --golden {failed.golden} --update`"


def _checks(outcome: Outcome) -> Table:
    grid = table("", "check", "found", wrap=("check", "found"))
    for check in outcome.checks:
        mark, style = _MARKS[check.status]
        if check.status is Status.PASSED and any(item.severity is Severity.WARNING for item in check.findings):
            mark, style = "warn", "yellow"
        grid.add_row(Text(mark, style), Text(printable(check.name)), Text(printable(check.text)))
    return grid


def _findings(found: Sequence[Finding]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, min_width=len(Severity.WARNING))
    grid.add_column(overflow="fold")
    same = groupby(found, lambda item: (item.severity, item.code, item.case, item.do))
    for (severity, code, case, do), group in same:
        head = Text.assemble((code, "bold"), printable(f"  case {case}" if case else ""))
        grid.add_row(Text(str(severity), _STYLES[severity]), head)
        for text, several in groupby(group, lambda item: item.text):
            places = [str(item.operator) for item in several if item.operator is not None]
            if places:
                grid.add_row("", Text(printable(", ".join(places)), "bold yellow"))
            grid.add_row("", Text(printable(text)))
        if do:
            grid.add_row("", Text(f"do:  {printable(do)}", "dim"))
    return grid


def _verdict(outcome: Outcome) -> Text:
    failed, errors = outcome.count(Status.FAILED), outcome.count(Status.ERROR)
    took = f" ({duration(outcome.seconds)})" if outcome.seconds else ""
    if outcome.passed:
        skipped = outcome.count(Status.SKIPPED)
        passed = count_of(outcome.count(Status.PASSED), "check")
        return Text(f"{passed} passed{f', {skipped} skipped' if skipped else ''}{took}", "bold green")
    parts = [f"{failed} of {count_of(len(outcome.checks), 'check')} failed"] if failed else []
    parts += [f"{count_of(errors, 'check')} could not be done"] if errors else []
    return Text(f"{', '.join(parts)}{took}", "bold red")
