"""What `openrknn doctor` prints: what is fine in a few lines, problems with their reason and their fix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openrknn.cli.common.output import Output, printable
from openrknn.doctor.finding import Finding, Severity
from openrknn.quantities import count_of

if TYPE_CHECKING:
    from rich.table import Table

    from openrknn.doctor.facts import Facts

__all__ = ["show"]

_MARKS = {
    Severity.OK: ("ok", "green"),
    Severity.NOTE: ("note", "cyan"),
    Severity.WARNING: ("warning", "yellow"),
    Severity.ERROR: ("error", "bold red"),
}
_ANYWAY = (
    ("openrknn run MODEL.rknn -i PICTURE", "run it on the software NPU"),
    ("openrknn serve MODEL.rknn", "serve it over REST and gRPC"),
    ("openrknn inspect MODEL.rknn", "see what is in it"),
    ("openrknn exec -- PROGRAM", "run a program that uses the vendor's library, as if on a board"),
    ("openrknn exec --open -- PROGRAM", "run it with openrknn's librknnrt.so in the place of the vendor's"),
)


def show(findings: Sequence[Finding], facts: Facts, output: Output) -> None:
    """One screen: good news first, because the eye ends at the bottom."""
    for severity in Severity:
        for finding in findings:
            if finding.severity is severity:
                output.show(_entry(finding))
    if not facts.npus:
        _anyway(output)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = sum(finding.severity is Severity.WARNING for finding in findings)
    if errors or warnings:
        output.line()
        output.line(f"{count_of(errors, 'error')}, {count_of(warnings, 'warning')}")
    output.line()
    output.next_step(_next_step(findings, facts))


def _next_step(findings: Sequence[Finding], facts: Facts) -> str:
    """The repair of the worst problem; without problems, a first result."""
    ranked = sorted(findings, key=lambda finding: -list(Severity).index(finding.severity))
    for finding in ranked:
        if finding.severity in {Severity.WARNING, Severity.ERROR} and finding.fix:
            command = next((line for line in finding.fix if line.startswith("$ ")), finding.fix[0])
            return command.removeprefix("$ ")
    if facts.npus:
        return "`openrknn verify` compares the NPU with the software NPU"
    return "`openrknn demo` runs the example models on this machine"


def _entry(finding: Finding) -> Table:
    from rich.table import Table
    from rich.text import Text

    mark, style = _MARKS[finding.severity]
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=8, justify="right")
    table.add_column()
    weight = "bold" if finding.severity is Severity.ERROR else ""
    table.add_row(Text(mark, style), Text(printable(finding.what), weight))
    if finding.why:
        table.add_row("", Text(printable(finding.why), "dim"))
    for line in finding.fix:
        table.add_row("", Text(f"{' ' if line.startswith('$ ') else '→'} {printable(line)}"))
    if finding.source and finding.severity in {Severity.WARNING, Severity.ERROR}:
        table.add_row("", Text(f"see {finding.source}", "dim"))
    return table


def _anyway(output: Output) -> None:
    from openrknn.cli.common.tables import facts, indented

    output.line()
    output.line("What works without an NPU:")
    output.show(*indented(facts(_ANYWAY, style="")))
