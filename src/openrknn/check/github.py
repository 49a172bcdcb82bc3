"""Lines that GitHub's runners turn into annotations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openrknn.analysis.reports import Severity
from openrknn.check.result import Outcome

__all__ = ["annotation_lines"]

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def annotation_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """One line for each finding."""
    for outcome in outcomes:
        for finding in outcome.findings:
            file = finding.file or outcome.model
            line = f",line={finding.line}" if finding.line else ""
            title = _property(f"openrknn: {finding.code}")
            text = _data(f"{outcome.model}: {finding}")
            yield f"::{_COMMANDS[finding.severity]} file={_property(file)}{line},title={title}::{text}"


def _data(text: str) -> str:
    """A line break in a name must not begin a command of its own."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
