"""One picture at a time, from the one who has it to all who look."""

from __future__ import annotations

import threading
from typing import Any

_PATIENCE_SECONDS = 10.0
"""How long a browser waits for the next picture before it is told to ask again."""


class Broadcast:
    """The newest picture. A slow client misses pictures and delays no other."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._picture = b""
        self._state: dict[str, Any] = {"picture": 0, "ended": False, "trouble": ""}

    def publish(self, picture: bytes, state: dict[str, Any]) -> None:
        """Replace picture and state; the state's `picture` is a number that grows."""
        with self._changed:
            self._picture = picture
            self._state = {**state, "picture": self._state["picture"] + 1, "ended": False, "trouble": ""}
            self._changed.notify_all()

    def trouble(self, text: str) -> None:
        """Why no picture comes just now."""
        with self._changed:
            self._state = {**self._state, "trouble": text}

    def close(self) -> None:
        """There will be no other picture."""
        with self._changed:
            self._state = {**self._state, "ended": True}
            self._changed.notify_all()

    @property
    def state(self) -> dict[str, Any]:
        with self._changed:
            return self._state

    def newer(self, than: int) -> tuple[bytes, dict[str, Any]]:
        """A picture with a higher number, and the state; no picture if none came in time, or none will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._state["picture"] > than or self._state["ended"], _PATIENCE_SECONDS)
            return (self._picture if self._state["picture"] > than else b""), self._state
