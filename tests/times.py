"""What each test costs in processor time, that of the programs that it started and waited for included.

Processor time rather than wall time: a machine that does something else as well gives nearly the same numbers.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

__all__ = ["add_option", "measured", "note", "report"]

OPTION = "--times"
_PROPERTY = "cpu_seconds"
_SHOWN = 12
_STARTED = pytest.StashKey[float]()


def _used() -> float:
    return sum(os.times()[:4])


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, metavar="FILE", help="write the CPU seconds of every test to this JSON file")


def measured(item: pytest.Item) -> Generator[None, object, object]:
    """Around one test."""
    item.stash[_STARTED] = _used()
    return (yield)


def note(item: pytest.Item, report: pytest.TestReport) -> None:
    """The last report of a test says what it cost; xdist brings it to the process that reports."""
    if report.when == "teardown":
        report.user_properties.append((_PROPERTY, round(_used() - item.stash[_STARTED], 3)))


def report(terminal: pytest.TerminalReporter) -> None:
    """The files that cost most, and all tests into the file that was asked for."""
    reports = (one for kind in terminal.stats.values() for one in kind if isinstance(one, pytest.TestReport))
    tests = {one.nodeid: value for one in reports for name, value in one.user_properties if name == _PROPERTY}
    path = terminal.config.getoption(OPTION)
    if path:
        Path(path).write_text(json.dumps(tests, indent=0, sort_keys=True) + "\n")
    files: Counter[str] = Counter()
    for name, value in tests.items():
        files[name.partition("::")[0]] += float(str(value))
    if len(files) > _SHOWN:
        terminal.section(f"CPU seconds: {sum(files.values()):.0f} in {len(files)} files")
        for name, seconds in files.most_common(_SHOWN):
            terminal.write_line(f"{seconds:7.1f} {name}")
