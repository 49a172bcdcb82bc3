"""What `openrknn lint` prints: a block for each finding, the most serious first."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from openrknn.analysis.lint import Finding, Severity
from openrknn.cli.common.output import Output, printable
from openrknn.cli.common.tables import indented, title
from openrknn.quantities import count_of

__all__ = ["SEVERITY_STYLES", "show"]

SEVERITY_STYLES = {Severity.NOTE: "cyan", Severity.WARNING: "yellow", Severity.ERROR: "bold red"}


def show(path: str, findings: Sequence[Finding], output: Output) -> None:
    """All findings of one file."""
    output.show(title(printable(f"{path}: {_summary(findings)}")))
    output.show(*indented(_block(findings)))


def _summary(findings: Sequence[Finding]) -> str:
    counts = [(sum(finding.severity is severity for finding in findings), severity) for severity in reversed(Severity)]
    return ", ".join(count_of(count, str(severity)) for count, severity in counts if count) or "nothing found"


def _block(findings: Sequence[Finding]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, min_width=len(Severity.WARNING))
    grid.add_column(overflow="fold")
    for finding in findings:
        head = Text.assemble((finding.code, "bold"), "  ", (printable(str(finding.where)), "dim"))
        grid.add_row(Text(str(finding.severity), SEVERITY_STYLES[finding.severity]), head)
        for label, text in (("", finding.what), ("why: ", finding.why), ("do:  ", finding.change)):
            if text:
                grid.add_row("", Text(f"{label}{printable(text)}", "dim" if label else ""))
    return grid
