"""The one next step after `openrknn lint`, the same in the text and on the page."""

from __future__ import annotations

from collections.abc import Sequence

from openrknn.analysis.lint.finding import Finding, Severity

__all__ = ["next_step"]


def next_step(findings: Sequence[Finding], *, ran: bool) -> str:
    """The change for the worst error or warning; otherwise a command that finds out more."""
    serious = [finding for finding in findings if finding.severity is not Severity.NOTE and finding.change]
    if serious:
        return max(serious, key=lambda finding: list(Severity).index(finding.severity)).change
    if not ran:
        return "`openrknn lint MODEL --run` also checks whether the outputs depend on the input"
    return "`openrknn profile MODEL` shows what each operator costs"
