"""A table in Markdown, for the summary of a pipeline's run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from openrknn.analysis.reports import Severity
from openrknn.check.result import Outcome, Status
from openrknn.quantities import duration

__all__ = ["markdown"]

_MARKS = {Status.PASSED: "passed", Status.FAILED: "**failed**", Status.SKIPPED: "skipped", Status.ERROR: "**error**"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~&])")


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Checks of all models, and below them what was found."""
    return "\n".join(line for outcome in outcomes for line in _lines(outcome)) + "\n"


def _lines(outcome: Outcome) -> Iterator[str]:
    verdict = "as expected" if outcome.passed else "not as expected"
    yield f"### {_text(outcome.model or outcome.golden)}: {verdict}\n"
    yield "| check | result | found |\n| --- | --- | --- |"
    for check in outcome.checks:
        yield f"| {_text(check.name)} | {_MARKS[check.status]} | {_text(check.text)} |"
    found = [finding for finding in outcome.findings if finding.severity is not Severity.NOTE]
    if found:
        yield ""
    for finding in found:
        place = f"**{_text(str(finding.operator))}**: " if finding.operator else ""
        yield f"- {finding.severity} `{finding.code}`: {place}{_text(finding.text)}"
    yield f"\n{_text(outcome.chip)} {_text(outcome.device)}, {duration(outcome.seconds)}\n"


def _text(text: str) -> str:
    """Names come from strangers: no links, pictures or HTML of theirs."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
