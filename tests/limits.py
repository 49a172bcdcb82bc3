"""No test runs for ever: one that waits for what does not come fails, and the others run.

A signal ends a test that waits in Python. One that hangs inside native code cannot be interrupted: pytest's own
`faulthandler_timeout` (pyproject.toml) then shows where it hangs and ends the process; xdist starts another worker.
Both are in pytest and Python; a plugin for this would do the same.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from types import FrameType

import pytest

__all__ = ["add_option", "limited"]

OPTION = "--limit"
_SECONDS = 600.0
"""The slowest test takes half a minute on an idle machine, and two minutes where six others want its cores."""


def add_option(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION, metavar="SECONDS", type=float, default=_SECONDS,
        help=f"how long one test may take, {_SECONDS:.0f} unless given; 0: as long as it likes (for a debugger)",
    )  # fmt: skip


def limited(item: pytest.Item) -> Generator[None, object, object]:
    """Around what a test does, or what its fixtures do."""
    seconds: float = item.config.getoption(OPTION)
    if seconds <= 0 or threading.current_thread() is not threading.main_thread():
        return (yield)

    def fail(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"took longer than {seconds:g} s (the limit for one test: pytest {OPTION} SECONDS)")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
