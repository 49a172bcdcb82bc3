"""`Idle`: when a model that is not in use is unloaded. Used by the server's loop only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

__all__ = ["Idle"]


class Idle:
    """`usual_seconds` after the last request, or what that request asked for; negative: never."""

    def __init__(self, unload: Callable[[], Awaitable[None]], usual_seconds: float) -> None:
        self._unload, self._usual = unload, usual_seconds
        self.seconds = usual_seconds
        """What counts now; negative: never."""
        self._began: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Future[None] | None = None

    @property
    def expires(self) -> float | None:
        """The time of the clock when it is unloaded, if there is no request until then; None: never."""
        return None if self.seconds < 0 else (self._began or time.time()) + self.seconds

    def keep(self, seconds: float | None) -> None:
        """What a request asks for; None: it says nothing. The last one decides."""
        self.seconds = self._usual if seconds is None else seconds

    def ends(self) -> None:
        """A request begins."""
        self._began = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def begins(self) -> None:
        """The last request has ended."""
        self.ends()
        self._began = time.time()
        if self.seconds == 0:
            self._expire()
        elif self.seconds > 0:
            self._timer = asyncio.get_running_loop().call_later(self.seconds, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._task = asyncio.ensure_future(self._unload())

    async def wait(self) -> None:
        """For an unloading that was begun."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
