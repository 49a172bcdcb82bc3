"""Calls that last: how many there may be, and which one goes when another client needs its place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from openrknn.serve.errors import FullError

__all__ = ["Stream", "Streams"]


class Stream:
    """One call that lasts."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.end = asyncio.Event()
        """Set: finish what was taken, and take no more."""
        self.is_displaced = False
        self.under_way = 0
        """Requests without an answer."""
        self.last = time.monotonic()

    def touch(self, difference: int) -> None:
        """A request has come, or an answer is gone."""
        self.under_way += difference
        self.last = time.monotonic()

    def check(self) -> None:
        """After its end: say why."""
        if self.is_displaced:
            raise FullError("this stream was idle and other clients needed its place; open another one")


class Streams:
    """All of them. An idle one makes room for a new one: clients that open many cannot lock the others out."""

    def __init__(self, most: int, most_of_client: int) -> None:
        self._most, self._most_of_client = most, most_of_client
        self._open: set[Stream] = set()

    @contextmanager
    def place(self, client: str) -> Iterator[Stream]:
        """A place for a new stream."""
        mine = [stream for stream in self._open if stream.client == client]
        if len(mine) >= self._most_of_client:
            self._make_room(mine, f"this client has {self._most_of_client} streams (--client-streams)")
        elif len(self._open) >= self._most:
            self._make_room(list(self._open), f"{self._most} streams are open")
        stream = Stream(client)
        self._open.add(stream)
        try:
            yield stream
        finally:
            self._open.discard(stream)

    def _make_room(self, among: list[Stream], why: str) -> None:
        idle = [stream for stream in among if not stream.under_way]
        if not idle:
            raise FullError(f"{why}; try again later")
        longest = min(idle, key=lambda stream: stream.last)
        longest.is_displaced = True
        longest.end.set()
        self._open.discard(longest)

    def close(self) -> None:
        """The server stops: all of them finish."""
        for stream in self._open:
            stream.end.set()
