"""`TextStream`: bytes of tokens become text, and nothing of a stop string comes out."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

__all__ = ["TextStream"]


class TextStream:
    """Keeps back what may still become a character or a stop string."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        if any(not stop for stop in stops):
            raise ValueError("a stop string is not empty")
        self._stops = tuple(stops)
        self._longest = max((len(stop) for stop in stops), default=0)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self.stopped: str | None = None
        """The stop string that was found."""

    def feed(self, data: bytes, *, is_last: bool = False) -> str:
        """What can be told now. After a stop string: what was before it, and then nothing."""
        if self.stopped is not None:
            return ""
        text = self._held + self._decoder.decode(data, is_last)
        found = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            at, self.stopped = min(found, key=lambda one: one[0])
            self._held = ""
            return text[:at]
        keep = 0 if is_last else self._unsure(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """The rest; half a character becomes U+FFFD."""
        return self.feed(b"", is_last=True)

    def _unsure(self, text: str) -> int:
        """Length of the longest end of the text that a stop string begins with."""
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            end = text[len(text) - size :]
            if any(stop.startswith(end) for stop in self._stops):
                return size
        return 0
