"""One picture at a time, from the one who has it to all who look."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_PATIENCE_SECONDS = 10.0
"""How long a browser waits for the next image before it has to retry."""


class Broadcast:
    """The newest picture. A slow client misses pictures and delays no other."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._picture: bytes | Callable[[], bytes] = b""
        self._drawing = threading.Lock()
        self._drawn: tuple[int, bytes] = (0, b"")
        """The last picture that somebody asked for, and its number."""
        self._state: dict[str, Any] = {"picture": 0, "ended": False, "trouble": ""}

    def publish(self, picture: bytes | Callable[[], bytes], state: dict[str, Any]) -> None:
        """Replace picture and state; the state's `picture` is a number that grows.

        A function makes the picture when somebody looks: most pictures of many cameras are never seen.
        """
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
            picture, state = self._picture, self._state
        if state["picture"] <= than:
            return b"", state
        return (picture if isinstance(picture, bytes) else self._draw(state["picture"], picture)), state

    def _draw(self, number: int, picture: Callable[[], bytes]) -> bytes:
        """Once for all who look."""
        with self._drawing:
            if self._drawn[0] != number:
                self._drawn = (number, picture())
            return self._drawn[1]
