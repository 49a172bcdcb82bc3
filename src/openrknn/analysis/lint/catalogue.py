"""All rules, and words for the findings that `openrknn inspect` has of its own."""

from __future__ import annotations

from openrknn.analysis.lint.context import Rule
from openrknn.analysis.lint.rules import (
    bounds,
    channels,
    decisions,
    dependence,
    inputs,
    islands,
    layout,
    multipliers,
    numbers,
    operands,
    overwritten,
    preprocessing,
    scales,
    unwritten,
)
from openrknn.analysis.lint_codes import FILE_CODES

__all__ = ["RULES", "explain"]

RULES: tuple[Rule, ...] = (
    layout.RULE,
    unwritten.RULE,
    overwritten.RULE,
    bounds.RULE,
    multipliers.RULE,
    operands.RULE,
    numbers.RULE,
    channels.RULE,
    decisions.RULE,
    scales.RULE,
    preprocessing.RULE,
    islands.RULE,
    inputs.RULE,
    dependence.RULE,
)


def explain(code: str) -> str | None:
    """A code in words; None if there is none."""
    for rule in RULES:
        if rule.code == code:
            return (
                f"{rule.code} ({rule.severity}): {rule.title}\n\n{rule.explanation}\n\n"
                f"What to change: {rule.change}.\n\nSeen in: {rule.evidence}."
            )
    return f"{code}: {FILE_CODES[code]}" if code in FILE_CODES else None
