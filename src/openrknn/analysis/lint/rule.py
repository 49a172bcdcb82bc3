"""What a rule is: a name, words for people, and a function that looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from openrknn.analysis.lint.context import Context
from openrknn.analysis.lint.finding import Finding, Severity

__all__ = ["Rule"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of mistake."""

    code: str
    severity: Severity
    """The worst that its findings can have."""
    title: str
    explanation: str
    """How it is found and what a board does with it."""
    change: str
    evidence: str
    """A file in which it really happens."""
    check: Callable[[Context], Iterable[Finding]]
