"""All rules, and words for the findings that `openrknn inspect` has of its own."""

from __future__ import annotations

from openrknn.analysis.lint.context import Rule
from openrknn.analysis.lint.rules import channels, inputs, limits, memory, multipliers, numbers
from openrknn.analysis.lint_codes import FILE_CODES

RULES: tuple[Rule, ...] = (
    memory.LAYOUT_MISMATCH,
    memory.NEVER_WRITTEN,
    memory.OVERWRITTEN,
    memory.OUT_OF_BOUNDS,
    limits.HARDWARE_LIMIT,
    multipliers.MULTIPLIER_OVERFLOW,
    numbers.OPERAND_FORMAT,
    numbers.NOT_FINITE,
    channels.CONSTANT_CHANNELS,
    numbers.CANNOT_DECIDE,
    numbers.LOST_IN_SUM,
    inputs.NORMALISED_TWICE,
    inputs.CPU_ISLAND,
    inputs.INPUT_REARRANGED,
    inputs.INPUT_IGNORED,
    limits.UNPROVEN_LIMIT,
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
