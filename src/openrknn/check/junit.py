"""JUnit's XML: what Jenkins, GitLab, GitHub actions and most others show as tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from openrknn.check.result import Check, Outcome, Status

__all__ = ["junit"]

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
