"""Mistakes of a conversion that a board would execute without a word, found in the commands and scales of a file.

    program     the tasks of a graph, decoded at addresses of their own
    accesses    what each of them reads and writes;  history: who wrote what they read
    rules       the kinds of mistakes, by what they are about;  catalogue: all of them, in words

    for finding in openrknn.lint(openrknn.load("yolo.rknn")):
        print(finding.severity, finding.code, finding.where, finding.what, finding.change)
"""

from __future__ import annotations

from openrknn.analysis.lint.advice import next_step
from openrknn.analysis.lint.api import lint, lint_commands
from openrknn.analysis.lint.catalogue import RULES, explain
from openrknn.analysis.lint.context import Rule
from openrknn.analysis.lint.finding import Finding, Severity, Where
from openrknn.analysis.lint_codes import CODES

__all__ = ["CODES", "RULES", "Finding", "Rule", "Severity", "Where", "explain", "lint", "lint_commands", "next_step"]
