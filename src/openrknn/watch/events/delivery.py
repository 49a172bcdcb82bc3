"""One receiver: gets the events in their order, at its own pace; after a failure again, with growing pauses."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from openrknn.watch.errors import SinkError
from openrknn.watch.events.spool import Event, Spool

__all__ = ["Delivery", "Sink"]

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


class Sink(Protocol):
    """A receiver of events."""

    name: str

    def deliver(self, event: Event, snapshot: bytes | None) -> None:
        """Returns when the receiver has it. SinkError: not now, or never (`is_refused`)."""

    def close(self) -> None:
        """Give everything back."""


class Delivery:
    """`step` delivers one event; `run` does so until it is stopped."""

    def __init__(self, sink: Sink, spool: Spool, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.sink, self._spool, self._clock = sink, spool, clock
        self.delivered = self.failed = self.refused = 0
        self.problem = ""
        self._pause, self._not_before = 0.0, 0.0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def step(self) -> float | None:
        """Deliver the next event. Seconds to wait before the next step; None: until there is an event."""
        left = self._not_before - self._clock()
        if left > 0:
            return left
        pending = self._spool.pending(self.sink.name, 1)
        if not pending:
            return None
        event = pending[0]
        try:
            self.sink.deliver(event, self._spool.snapshot(event.number))
        except SinkError as error:
            if not error.is_refused:
                return self._failed(str(error))
            self.refused += 1
            _LOG.warning("event-refused: %s will never take event %s: %s", self.sink.name, event.id, error)
        else:
            self.delivered += 1
        if self.problem:
            _LOG.info("%s takes events again", self.sink.name)
        self.problem, self._pause = "", 0.0
        self._spool.take(self.sink.name, event.number)
        return 0.0

    def _failed(self, words: str) -> float:
        self.failed += 1
        self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
        self._not_before = self._clock() + self._pause
        if not self.problem:
            _LOG.warning("sink-down: %s does not take events: %s; they wait in the spool", self.sink.name, words)
        self.problem = words
        return self._pause

    def flush(self) -> bool:
        """Deliver what there is, without waiting for receivers that are down; whether all of it went."""
        self._not_before = 0.0
        while (wait := self.step()) == 0.0:
            pass
        return wait is None

    # -- in a thread -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Deliver in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name=f"openrknn-{self.sink.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.is_set():
            wait = self.step()
            if wait == 0.0:
                continue
            with self._spool.changed:
                if self._stopping.is_set():
                    return
                if wait is None and self._spool.pending(self.sink.name, 1):
                    continue
                self._spool.changed.wait(wait)

    def stop(self) -> bool:
        """End the thread, then deliver what is left; whether all of it went."""
        self._stopping.set()
        with self._spool.changed:
            self._spool.changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        try:
            return self.flush()
        finally:
            self.sink.close()
