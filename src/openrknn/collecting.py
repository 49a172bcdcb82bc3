"""Garbage collection waits while objects are made that all stay.

    with collecting.paused():
        ...                     # opening a model, decoding: half of the objects in the process are new, and no garbage

Python's collector looks at all new objects after every 700, and at older ones again and again as their number grows.
Here it begins after the last of those who wait, unless it was off before.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from openrknn.forks import in_child

__all__ = ["paused"]


class _Pauses:
    """Those that have begun and not ended, in all threads."""

    def __init__(self) -> None:
        # A finalizer that a collection calls may open a model as well.
        self._lock, self._count, self._was_on = threading.RLock(), 0, False
        in_child(self, _Pauses._end_in_child)

    def begin(self) -> None:
        with self._lock:
            if not self._count:
                self._was_on = gc.isenabled()
                gc.disable()
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count and self._was_on:
                # Not gc.freeze and gc.unfreeze, which would spare a look at each new object: they set the counts of all
                # generations to 0, so that a process that goes on opening models would never free cycles.
                gc.enable()

    def _end_in_child(self) -> None:
        """Threads that were opening models are not in a child; the one that forked may be in a pause, which ends."""
        self._lock = threading.RLock()
        if self._count and self._was_on:
            gc.enable()


_PAUSES = _Pauses()


@contextmanager
def paused() -> Iterator[None]:
    """No automatic collection in the block; it may be within another, or beside those of other threads."""
    _PAUSES.begin()
    try:
        yield
    finally:
        _PAUSES.end()
