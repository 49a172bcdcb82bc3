"""Results in the formats of pipelines: SARIF 2.1.0, JUnit's XML, GitHub's annotations and a table in Markdown."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from openrknn.analysis.reports import Severity
from openrknn.check.result import HELP_URI, Check, Finding, Outcome, Status, title_of
from openrknn.quantities import duration

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


_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(outcomes: Sequence[Outcome]) -> str:
    """A suite for each model, a test for each check."""
    root = ElementTree.Element("testsuites", name="openrknn check")
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for outcome in outcomes:
        counts = {
            "tests": len(outcome.checks),
            "failures": outcome.count(Status.FAILED),
            "errors": outcome.count(Status.ERROR),
            "skipped": outcome.count(Status.SKIPPED),
        }
        totals = {name: totals[name] + count for name, count in counts.items()}
        suite = ElementTree.SubElement(root, "testsuite", name=_clean(outcome.model or outcome.golden))
        for name, count in counts.items():
            suite.set(name, str(count))
        suite.set("time", f"{outcome.seconds:.3f}")
        facts = {"golden": outcome.golden, "chip": outcome.chip, "device": outcome.device}
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in facts.items():
            ElementTree.SubElement(properties, "property", name=name, value=_clean(value))
        for check in outcome.checks:
            _case(suite, outcome, check)
    for name, count in totals.items():
        root.set(name, str(count))
    root.set("time", f"{sum(outcome.seconds for outcome in outcomes):.3f}")
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _case(suite: ElementTree.Element, outcome: Outcome, check: Check) -> None:
    names = {"name": _clean(check.name), "classname": _clean(outcome.model or outcome.golden)}
    case = ElementTree.SubElement(suite, "testcase", names, time=f"{check.seconds:.3f}")
    lines = [_clean(f"{finding.severity}: {finding.code}: {finding}") for finding in check.findings]
    match check.status:
        case Status.FAILED | Status.ERROR:
            tag = "failure" if check.status is Status.FAILED else "error"
            first = _clean(str(check.findings[0])) if check.findings else _clean(check.text)
            code = check.findings[0].code if check.findings else ""
            ElementTree.SubElement(case, tag, message=first, type=code).text = "\n".join(lines)
        case Status.SKIPPED:
            ElementTree.SubElement(case, "skipped", message=_clean(check.text))
        case _:
            ElementTree.SubElement(case, "system-out").text = "\n".join([_clean(check.text), *lines])


def _clean(text: str) -> str:
    """Names come from strangers, and XML has no way to write most control characters."""
    return _NOT_XML.sub("\ufffd", text)


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
    """Names are untrusted: links, images and HTML in them are escaped."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
