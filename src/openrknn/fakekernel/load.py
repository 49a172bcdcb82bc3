"""How busy a core is, in the driver's way: the share of the last whole second."""

from __future__ import annotations

import threading
import time

__all__ = ["LoadMeter"]

_WINDOW_NS = 1_000_000_000


class LoadMeter:
    """Busy time of one core, in windows of one second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._start = time.monotonic_ns()
        self._window = 0
        self._busy = 0
        self._last = 0
        self._since: int | None = None

    def begin(self) -> None:
        """A job starts."""
        with self._lock:
            self._roll()
            self._since = time.monotonic_ns()

    def end(self) -> None:
        """The job is done."""
        with self._lock:
            self._roll()
            if self._since is not None:
                self._busy += time.monotonic_ns() - self._since
            self._since = None

    def percent(self) -> int:
        """Of the last whole second, at most 100."""
        with self._lock:
            self._roll()
            return min(self._last * 100 // _WINDOW_NS, 100)

    def _roll(self) -> None:
        """Close windows that have ended; a job that still runs is busy until the end of each."""
        now = time.monotonic_ns()
        window = (now - self._start) // _WINDOW_NS
        while self._window < window:
            end = self._start + (self._window + 1) * _WINDOW_NS
            if self._since is not None:
                self._busy += end - self._since
                self._since = end
            self._last, self._busy = self._busy, 0
            self._window += 1
            if self._since is None and self._window < window:  # nothing happens in the windows between
                self._last, self._window = 0, window
