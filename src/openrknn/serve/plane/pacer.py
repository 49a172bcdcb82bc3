"""`Pacer`: what is large, or from somebody new, goes when the loop has time for it.

One thread answers everybody. Moving sixty megabytes through it, or greeting a hundred new connections, would make all
others wait. So such work is cut into small pieces, and each piece asks for a turn. Turns are given one by one, to the
client who had least of them lately, and only while the loop is on time; a few are given in any case.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time

__all__ = ["Pacer"]

_TICK_SECONDS = 0.005
_LATE_SECONDS = 0.004
"""A tick that is later than this means that others wait."""
_LEAST_SHARE = 0.25
"""Of the time that goes to turns in any case."""
_MOST_CLIENTS = 4096
_HALF_LIFE_SECONDS = 5.0


class Pacer:
    """For the loop that runs."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, asyncio.Future[None], str]] = []
        self._numbers = itertools.count()
        self._had: dict[str, float] = {}
        """Turns that each client had, by and by forgotten."""
        self._forgot = time.monotonic()
        self._task: asyncio.Task[None] | None = None
        self.lag_seconds = 0.0
        """How late the loop is, smoothed."""

    async def turn(self, client: str, pieces: float = 1.0) -> None:
        """Wait for a turn."""
        had = self._had.get(client, 0.0)
        if len(self._had) < _MOST_CLIENTS or client in self._had:
            self._had[client] = had + pieces
        waiting = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (had, next(self._numbers), waiting, client))
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._give())
        await waiting

    async def _give(self) -> None:
        """Lives while somebody waits."""
        spent = 0.0
        while self._waiting:
            self._forget()
            started = time.monotonic()
            await asyncio.sleep(0)
            await asyncio.sleep(0)  # what the last turn has set off is done now
            took = time.monotonic() - started
            self.lag_seconds += 0.2 * (took - self.lag_seconds)
            if self.lag_seconds > _LATE_SECONDS:
                # Others wait: a pause in proportion to what a turn costs leaves them most of the time.
                pause = min(0.05, max(_TICK_SECONDS, spent / _LEAST_SHARE - spent))
                await asyncio.sleep(pause)
                self.lag_seconds *= 0.7
            begun = time.monotonic()
            while self._waiting:
                _, _, waiting, _ = heapq.heappop(self._waiting)
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
        self._had = {client: had / 2 for client, had in self._had.items() if had >= 1}
