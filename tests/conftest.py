"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir

from openrknn.cachefiles import FileCache
from tests import limits, quick, sample, times
from tests.witness.testimony import WitnessMissingError
from tests.witness.witness import Witness

# A loaded machine must not fail a test: what is slow is told by benchmarks/.
settings.register_profile("suite", deadline=None, max_examples=50)
settings.register_profile("all", deadline=None, max_examples=100)
settings.load_profile("suite")
# Numbers that hypothesis finds in our sources, by the content of each file: a fresh clone need not look for them again.
set_hypothesis_home_dir(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openrknn-hypothesis")
# What one test makes, with something replaced perhaps, another must not find. Tests of caches switch them on.
FileCache.is_on = False
# Lines about progress depend on how fast this machine is, and tests compare what commands print.
os.environ["OPENRKNN_PROGRESS"] = "off"
# Programs inherit ignored signals: in the background of a script those of the tests would not hear Ctrl-C, and go on.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_width_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries of other tests in this process may leave a width behind, and tables would be drawn for it."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session")
def witness() -> Witness:
    """The vendor's runtime on a device that computes nothing; the test is skipped where it is not set up."""
    try:
        return Witness.find()
    except WitnessMissingError as missing:
        pytest.skip(f"no vendor witness: {missing}")


def pytest_addoption(parser: pytest.Parser) -> None:
    times.add_option(parser)
    limits.add_option(parser)
    quick.add_option(parser)
    sample.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    if sample.is_all(config):
        settings.load_profile("all")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    quick.choose(config, items)
    sample.choose(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from times.measured(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from limits.limited(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from limits.limited(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    times.note(item, report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was not checked, in one place: a run that skips its witnesses must not look like one that asked them."""
    times.report(terminalreporter)
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    reasons = Counter(_reason(report) for report in skipped)
    terminalreporter.section(f"not checked: {len(skipped)} tests")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:5} {reason}")


def _reason(report: pytest.TestReport) -> str:
    """Without the name of what one test alone misses."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ").partition(" (")[0]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Without the garbage collector, which would look at every test again and again, and later in every full round."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
