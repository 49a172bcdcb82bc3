"""Whose frame is next: start-time fair queueing of NPU cores between cameras and models.

Every stream (a camera with one of its models) has a clock that advances by the NPU time that it used, divided by its
camera's weight. The one whose clock is behind is next. A stream that had nothing to do gets no credit for that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Schedule", "Stream"]

_FIRST_COST = 0.01
"""Seconds that a run is taken to need before one was measured."""


@dataclass(slots=True, eq=False)
class Stream:
    """One camera with one model."""

    name: str
    group: str
    """The model: at most `Schedule.limits[group]` of them run at the same time."""
    weight: float = 1.0
    cores: int = 1
    clock: float = 0.0
    is_running: bool = False
    was_ready: bool = False
    cost: float = _FIRST_COST
    """Of the last run, in seconds."""
    runs: int = 0
    busy_seconds: float = 0.0


class Schedule:
    """Gives out `cores`; a run that needs more than there are gets all of them."""

    def __init__(self, cores: int, limits: dict[str, int] | None = None) -> None:
        self.cores = max(cores, 1)
        self.limits = limits or {}
        self._lock = threading.Lock()
        self._streams: list[Stream] = []
        self._used = 0
        self._running: dict[str, int] = {}

    def add(self, stream: Stream) -> None:
        """One more."""
        with self._lock:
            stream.cores = min(stream.cores, self.cores)
            self._streams.append(stream)

    def choose(self, is_ready: Callable[[Stream], bool]) -> Stream | None:
        """The stream whose frame is next, or None where none is ready or no core is free. `done` gives it back.

        A stream that waits for several cores does not starve: no stream behind it is chosen meanwhile.
        """
        with self._lock:
            ready = [one for one in self._streams if not one.is_running and is_ready(one)]
            self._wake(ready)
            for stream in sorted(ready, key=lambda one: one.clock):
                if self._running.get(stream.group, 0) >= self.limits.get(stream.group, self.cores):
                    continue
                if self._used + stream.cores > self.cores:
                    return None
                stream.is_running = True
                stream.clock += stream.cost * stream.cores / stream.weight  # corrected in `done`
                self._used += stream.cores
                self._running[stream.group] = self._running.get(stream.group, 0) + 1
                return stream
            return None

    def _wake(self, ready: list[Stream]) -> None:
        busy = [one.clock for one in self._streams if one.is_running or (one.was_ready and one in ready)]
        floor = min(busy, default=0.0)
        for stream in self._streams:
            is_now = stream.is_running or stream in ready
            if is_now and not stream.was_ready:
                stream.clock = max(stream.clock, floor)
            stream.was_ready = is_now

    def done(self, stream: Stream, seconds: float) -> None:
        """The run is over, and took so long."""
        with self._lock:
            stream.clock += (seconds - stream.cost) * stream.cores / stream.weight
            stream.cost = seconds
            stream.runs += 1
            stream.busy_seconds += seconds
            stream.is_running = False
            self._used -= stream.cores
            self._running[stream.group] -= 1
