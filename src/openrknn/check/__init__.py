"""Compare a model with a recording of a good one, in pipelines that build and ship models.

    from openrknn.check import check, record

    record("model.rknn", "golden", {"cat": "cat.jpg"})      once, from a model that is good
    outcome = check("model.rknn", "golden")                  at every build
    assert outcome.passed, [str(finding) for finding in outcome.findings]

    golden      the folder: golden.toml, inputs, what is expected;   fields: reading TOML;   tolerance, answer: parts
    run         check: one model;   pairs: several models and their folders;   cases: running them
    answers     pictures to classes, boxes, areas, text;   words: texts against texts
    fingerprint what each operator is;   integrity: what changed;   tensors: the first operator that differs
    budgets     milliseconds, bytes, operators of the CPU;   lints: findings of `openrknn lint`
    record      makes a folder and refreshes it;   toml: writes golden.toml
    junit, sarif, github, markdown      reports for pipelines;   rules: what they explain
    testing     for tests;   result, errors: the values and what can go wrong
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openrknn.lazy import lazy_names

if TYPE_CHECKING:
    from openrknn.check.budgets import Costs, costs_of
    from openrknn.check.errors import CannotCheckError, GoldenError
    from openrknn.check.golden import Golden, load_golden
    from openrknn.check.record import record, update
    from openrknn.check.result import Check, Finding, Outcome, Status, exit_code
    from openrknn.check.run import check
    from openrknn.check.subject import open_subject
    from openrknn.check.tolerance import Tolerance, judge

__all__ = [
    "CannotCheckError", "Check", "Costs", "Finding", "Golden", "GoldenError", "Outcome", "Status", "Tolerance", "check",
    "costs_of", "exit_code", "judge", "load_golden", "open_subject", "record", "update",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "budgets": "Costs costs_of",
        "errors": "CannotCheckError GoldenError",
        "golden": "Golden load_golden",
        "record": "record update",
        "result": "Check Finding Outcome Status exit_code",
        "run": "check",
        "subject": "open_subject",
        "tolerance": "Tolerance judge",
    },
)
