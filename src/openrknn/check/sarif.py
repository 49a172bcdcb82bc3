"""SARIF 2.1.0: what GitHub's code scanning and other viewers of findings read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from openrknn.analysis.reports import Severity
from openrknn.check.result import Finding, Outcome
from openrknn.check.rules import HELP_URI, title_of

__all__ = ["SCHEMA", "sarif"]

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif(outcomes: Sequence[Outcome], *, version: str) -> dict[str, Any]:
    """All findings as one run; paths are relative to the working directory where they lie below it."""
    found = [(outcome, finding) for outcome in outcomes for finding in outcome.findings]
    codes = list(dict.fromkeys(finding.code for _, finding in found))
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "openrknn check",
                        "informationUri": HELP_URI,
                        "semanticVersion": _semantic(version),
                        "rules": [_rule(code) for code in codes],
                    }
                },
                "columnKind": "utf16CodeUnits",
                "results": [_result(outcome, finding, codes.index(finding.code)) for outcome, finding in found],
            }
        ],
    }


def _semantic(version: str) -> str:
    """0.1.0.dev0 -> 0.1.0-dev0, as semver writes it."""
    numbers = version.split(".")
    return ".".join(numbers[:3]) + (f"-{'.'.join(numbers[3:])}" if numbers[3:] else "")


def _rule(code: str) -> dict[str, Any]:
    return {
        "id": code,
        "name": "".join(word.capitalize() for word in code.replace("/", "-").split("-")),
        "shortDescription": {"text": title_of(code)},
        "helpUri": HELP_URI,
        "help": {"text": f"{title_of(code)} See {HELP_URI}"},
    }


def _result(outcome: Outcome, finding: Finding, rule: int) -> dict[str, Any]:
    message = str(finding) + (f". {finding.do[0].upper()}{finding.do[1:]}." if finding.do else "")
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(finding.file or outcome.model or outcome.golden)},
            "region": {"startLine": max(finding.line, 1)},
        }
    }
    if finding.operator is not None:
        name = str(finding.operator)
        location["logicalLocations"] = [{"name": finding.operator.name or name, "fullyQualifiedName": name,
                                         "kind": "operator"}]  # fmt: skip
    identity = "\0".join((outcome.model, finding.code, finding.case, str(finding.operator)))
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": message},
        "locations": [location],
        # Models are no texts: without this, a viewer cannot tell an old finding from a new one.
        "partialFingerprints": {"openrknn/v1": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:32]},
        "properties": {"model": outcome.model, "golden": outcome.golden, "case": finding.case, "chip": outcome.chip},
    }


def _uri(path: str) -> str:
    """Relative with slashes below the working directory, else file://."""
    if not os.path.isabs(path):
        return quote(Path(os.path.normpath(path)).as_posix())
    try:
        return quote(Path(path).relative_to(Path.cwd()).as_posix())
    except ValueError:
        return Path(path).as_uri()
