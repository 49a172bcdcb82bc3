"""What tests cost in processor time, that of the programs that they started and waited for included.

Processor time rather than wall time: a machine that does something else as well gives nearly the same numbers.
`pytest --times tests/durations.json` writes down which tests are slow; `--quick` (tests/quick.py) leaves those out.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

__all__ = ["RECORD", "add", "add_option", "function_of", "is_slow", "measured", "note", "report"]

OPTION = "--times"
RECORD = Path(__file__).with_name("durations.json")
SLOW_SECONDS = 0.1
_PROPERTY = "cpu_seconds"
_SHOWN = 12
_STARTED = pytest.StashKey[float]()


_elsewhere = 0.0


def add(seconds: float) -> None:
    """Processor time that the running test has spent in a process which this one has not waited for."""
    global _elsewhere  # noqa: PLW0603
    _elsewhere += seconds


def _used() -> float:
    return sum(os.times()[:4]) + _elsewhere


def function_of(node: str) -> str:
    """A test without its parameters."""
    return node.partition("[")[0]


def is_slow(seconds: float) -> bool:
    """A test that costs so much, or more, is written down."""
    return seconds >= SLOW_SECONDS


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION, metavar="FILE", help="write the CPU seconds of slow tests to this JSON file: the mean over parameters"
    )


def measured(item: pytest.Item) -> Generator[None, object, object]:
    """Around one test."""
    item.stash[_STARTED] = _used()
    return (yield)


def note(item: pytest.Item, report: pytest.TestReport) -> None:
    """The last report of a test says what it cost; xdist brings it to the process that reports."""
    if report.when == "teardown":
        report.user_properties.append((_PROPERTY, round(_used() - item.stash[_STARTED], 3)))


def report(terminal: pytest.TerminalReporter) -> None:
    """The files that cost most, and the slow tests into the file that was asked for."""
    tests: dict[str, float] = {}
    for kind in terminal.stats.values():
        for one in kind:
            for name, value in getattr(one, "user_properties", ()):
                if name == _PROPERTY:
                    tests[one.nodeid] = float(str(value))
    path = terminal.config.getoption(OPTION)
    if path:
        _record(tests, Path(path))
    files: dict[str, float] = defaultdict(float)
    for name, seconds in tests.items():
        files[name.partition("::")[0]] += seconds
    if len(files) > _SHOWN:
        terminal.section(f"CPU seconds: {sum(files.values()):.0f} in {len(files)} files")
        for name, seconds in sorted(files.items(), key=lambda entry: -entry[1])[:_SHOWN]:
            terminal.write_line(f"{seconds:7.1f} {name}")


def _record(tests: dict[str, float], path: Path) -> None:
    """What is in the file already about tests that did not run stays."""
    functions: dict[str, list[float]] = defaultdict(list)
    for name, seconds in tests.items():
        functions[function_of(name)].append(seconds)
    means = {name: round(sum(values) / len(values), 2) for name, values in functions.items()}
    before = json.loads(path.read_text()) if path.exists() else {}
    kept = {name: seconds for name, seconds in {**before, **means}.items() if is_slow(seconds)}
    path.write_text(json.dumps(kept, indent=0, sort_keys=True) + "\n")
