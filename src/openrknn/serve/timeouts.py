"""`timeout`: asyncio's own, and for Python 3.10, which has none, one that does the same."""

from __future__ import annotations

import sys

__all__ = ["timeout"]

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:
    import asyncio
    from types import TracebackType
    from typing import Any

    class timeout:  # noqa: N801 - the name of asyncio's own
        """`async with timeout(seconds)`: what is inside is cancelled after that time, and `TimeoutError` raised.

        A task of Python 3.10 does not count who cancelled it: one that is cancelled from outside in the very turn of
        the loop in which its time is over ends with `TimeoutError`.
        """

        def __init__(self, delay: float | None) -> None:
            self._delay = delay
            self._task: asyncio.Task[Any] | None = None
            self._timer: asyncio.TimerHandle | None = None
            self._is_over = False

        async def __aenter__(self) -> timeout:
            self._task = asyncio.current_task()
            if self._task is None:
                raise RuntimeError("a timeout is for what runs in a task")
            self.reschedule(None if self._delay is None else asyncio.get_running_loop().time() + self._delay)
            return self

        async def __aexit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None:
            self.reschedule(None)
            if self._is_over and kind is asyncio.CancelledError:
                raise TimeoutError from error

        def reschedule(self, when: float | None) -> None:
            """Another end, in the loop's own time; None: no end."""
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if when is not None:
                loop = asyncio.get_running_loop()
                # A time that has passed ends the first wait.
                self._timer = loop.call_at(max(when, loop.time()), self._end)

        def expired(self) -> bool:
            """The time was over before the end."""
            return self._is_over

        def _end(self) -> None:
            self._is_over = True
            if self._task is not None:
                self._task.cancel()
