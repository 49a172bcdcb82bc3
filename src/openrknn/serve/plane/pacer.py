"""`Pacer`: what is large, or from somebody new, goes when the loop has time for it.

One thread answers everybody. Moving sixty megabytes through it, or greeting a hundred new connections, would make all
others wait. So such work is cut into small pieces, and each piece asks for a turn. Turns are given one by one, in the
order of asking, and while the loop is late with pauses between them. Clients whose requests were refused again and
again stand aside for a while first, as long as there are others who are served.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

__all__ = ["Pacer"]

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.006, 0.015
_LATE_SECONDS = 0.003
"""Two rounds of the loop that take longer than this mean that others wait."""
_PAUSE_PER_TURN = 3.0
"""Then turns get a quarter of the time."""
_FREE_REFUSALS, _ASIDE_SECONDS, _MOST_ASIDE = 1.0, 1.0, 5.0
"""Refusals of the last seconds that cost nothing; what each one more costs; and the most."""
_LOOK_SECONDS = 0.05
_MOST_CLIENTS = 4096
_HALF_LIFE_SECONDS = 5.0


class Pacer:
    """For the loop that runs."""

    def __init__(self, is_busy: Callable[[], bool] = lambda: False) -> None:
        self._is_busy = is_busy
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._refusals: dict[str, float] = {}
        """Of each client, by and by forgotten."""
        self._forgot = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self.lag_seconds = 0.0
        """How late the loop is, smoothed."""

    def refused(self, client: str, times: float = 1.0) -> None:
        """This client has sent what cannot be."""
        if len(self._refusals) < _MOST_CLIENTS or client in self._refusals:
            self._refusals[client] = self._refusals.get(client, 0.0) + times

    async def turn(self, client: str) -> None:
        """Wait for a turn."""
        self._forget()
        over = self._refusals.get(client, 0.0) - _FREE_REFUSALS
        if over > 0:
            until = time.monotonic() + min(_MOST_ASIDE, _ASIDE_SECONDS * over)
            while time.monotonic() < until and self._is_busy():
                await asyncio.sleep(_LOOK_SECONDS)
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._give())
        await waiting

    async def _give(self) -> None:
        """Lives while somebody waits."""
        spent = 0.0
        while self._waiting:
            started = time.monotonic()
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # what the last turn has set off is done now
            took = time.monotonic() - started
            self.lag_seconds += 0.2 * (took - self.lag_seconds)
            if self.lag_seconds > _LATE_SECONDS:
                # Others wait: a pause in proportion to what a turn costs leaves them most of the time.
                await asyncio.sleep(min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, _PAUSE_PER_TURN * spent)))
                self.lag_seconds *= 0.85
            begun = time.monotonic()
            while self._waiting:
                waiting = self._waiting.popleft()
                if not waiting.done():  # done: given up
                    waiting.set_result(None)
                    break
            await asyncio.sleep(0)
            spent = time.monotonic() - begun

    def _forget(self) -> None:
        now = time.monotonic()
        if now - self._forgot < _HALF_LIFE_SECONDS:
            return
        self._forgot = now
        self._refusals = {client: count / 2 for client, count in self._refusals.items() if count >= 1}
