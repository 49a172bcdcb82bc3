"""Garbage collection waits while objects are made that all stay.

    with collecting.paused():
        ...                     # opening a model, decoding: half of the objects in the process are new, and no garbage

Python's collector looks at all new objects after every 700, and at older ones again and again as their number grows.
Here it begins after the last of those who wait, unless it was off before. What was made until then counts as old,
except in a process with frozen objects (`gc.freeze`).
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
        self._promotes = True
        """No other code has frozen objects. Counting those looks at each of them, so that it is done once."""
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
            if self._count or not self._was_on:
                return
            self._promotes = self._promotes and not gc.get_freeze_count()  # somebody's frozen objects stay so
            if self._promotes:
                gc.freeze()
                gc.unfreeze()  # into the oldest generation, without a look at each
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
