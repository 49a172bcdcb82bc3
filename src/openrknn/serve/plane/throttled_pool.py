"""`ThrottledPool`: work that takes long, beside which others have to be answered.

A few threads of its own take it, the cheapest first (what waits for long gets its turn as well), and after each piece
they pause for twice as long as it took while another client has a request in flight. So bombs cost a third of a
processor at most, and an idle server gives all it has.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from openrknn.serve.errors import FullError

__all__ = ["ThrottledPool"]

T = TypeVar("T")
_REST = 2.0
"""Seconds of rest per second of work."""
_LOOK_SECONDS, _LONGEST_REST = 0.005, 5.0
_SECONDS_PER_COST = 1 / (32 << 20)
"""What is dearer by 32 MiB lets others pass that come a second later."""


class ThrottledPool:
    """`is_busy` says whether others wait."""

    def __init__(self, name: str, *, threads: int, most_waiting: int, is_busy: Callable[[], bool]) -> None:
        self._is_busy, self._most = is_busy, most_waiting
        self._jobs: list[tuple[float, int, Future[Any], Callable[[], Any]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"openrknn-{name}", daemon=True) for _ in range(threads)
        ]
        self._is_started = False

    def submit(self, cost_bytes: int, work: Callable[[], T]) -> Future[T]:
        """Do it in its turn; 429 where too much waits."""
        future: Future[T] = Future()
        with self._changed:
            if self._is_closed or len(self._jobs) >= self._most:
                raise FullError("too many large requests are waiting; try again later")
            order = time.monotonic() + cost_bytes * _SECONDS_PER_COST
            heapq.heappush(self._jobs, (order, next(self._numbers), future, work))
            self._changed.notify()
            if not self._is_started:
                self._is_started = True
                for thread in self._threads:
                    thread.start()
        return future

    async def run(self, cost_bytes: int, work: Callable[[], T]) -> T:
        """`submit` for coroutines. Cancelling takes the work out of the queue."""
        return await asyncio.wrap_future(self.submit(cost_bytes, work))

    def close(self) -> None:
        """End the threads; what waits is cancelled."""
        with self._changed:
            self._is_closed = True
            for _, _, future, _ in self._jobs:
                future.cancel()
            self._jobs.clear()
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._jobs:
                    if self._is_closed:
                        return
                    self._changed.wait()
                _, _, future, work = heapq.heappop(self._jobs)
            if not future.set_running_or_notify_cancel():
                continue
            begun = time.thread_time()
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it is raised where the request is
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
            del future, work
            self._pause(_REST * (time.thread_time() - begun))

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + min(seconds, _LONGEST_REST)
        while time.monotonic() < until and self._is_busy() and not self._is_closed:
            time.sleep(_LOOK_SECONDS)
