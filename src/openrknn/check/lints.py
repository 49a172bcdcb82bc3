"""The findings of `openrknn lint` as one check."""

from __future__ import annotations

from collections import Counter

from openrknn.analysis.lint import lint
from openrknn.analysis.reports import Severity
from openrknn.check.golden import LintRules
from openrknn.check.result import LINT, Check, Finding, OperatorPlace, Status
from openrknn.check.subject import Subject
from openrknn.quantities import count_of

_FAILS = {
    "error": {Severity.ERROR},
    "warning": {Severity.ERROR, Severity.WARNING},
    "note": set(Severity),
    "never": set[Severity](),
}


def lint_check(subject: Subject, rules: LintRules) -> Check:
    """Fails on findings of the severity that golden.toml names; what it ignores is counted."""
    kept: list[Finding] = []
    counts: Counter[Severity] = Counter()
    ignored = 0
    fails = False
    for part, model in subject.parts.items():
        for item in lint(model):
            if item.code in rules.ignored:
                ignored += 1
                continue
            counts[item.severity] += 1
            if item.severity not in _FAILS[rules.fail_on] and item.severity is Severity.NOTE:
                continue  # notes are many, and `openrknn lint` shows them
            fails |= item.severity in _FAILS[rules.fail_on]
            where = item.where
            place = None
            if where.operator is not None:
                place = OperatorPlace(where.operator, where.operator_type, where.operator_name or where.tensor, part)
            text = item.what if place or not where.tensor else f"{where.tensor!r}: {item.what}"
            kept.append(Finding(LINT + item.code, item.severity, text, place, file=subject.path, do=item.change))
    parts = [count_of(counts[severity], str(severity)) for severity in reversed(Severity) if counts[severity]]
    if ignored:
        parts.append(f"{ignored} ignored")
    return Check("lint", Status.FAILED if fails else Status.PASSED, ", ".join(parts) or "nothing found", tuple(kept))
