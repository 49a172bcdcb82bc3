"""`examine`: all checks, the worst findings first."""

from __future__ import annotations

from pathlib import Path

from openrknn.doctor.checks import CHECKS
from openrknn.doctor.checks.model import check_file
from openrknn.doctor.facts import Facts, Who
from openrknn.doctor.finding import Finding, Severity

__all__ = ["examine", "examine_facts"]


def examine(root: Path = Path("/"), model: Path | None = None, who: Who | None = None) -> list[Finding]:
    """What there is to say about the machine whose files are below `root`, and about a model (or a wheel) on it."""
    return examine_facts(Facts(root, who or Who.this_process()), model)


def examine_facts(facts: Facts, model: Path | None = None) -> list[Finding]:
    """`examine` for facts that are already collected."""
    found = [finding for check in CHECKS for finding in check(facts)]
    if model is not None:
        found += check_file(facts, model)
    order = list(Severity)
    return sorted(found, key=lambda finding: -order.index(finding.severity))
