"""`Budget`: the memory that all requests share. It is asked before memory is taken, never afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from openrknn.serve.errors import FullError, TooLargeError

__all__ = ["Budget", "Share"]


class Budget:
    """Bytes of all requests: bodies, what they unfold to, decoded pictures, messages, answers until they are sent.

    `reserve_bytes` is what requests of more than half as much cannot take.
    """

    def __init__(self, total_bytes: int, reserve_bytes: int = 0) -> None:
        self.total_bytes = total_bytes
        self._reserve = reserve_bytes
        self._left = total_bytes
        self._changed = threading.Condition()

    @property
    def used_bytes(self) -> int:
        return self.total_bytes - self._left

    def open(self) -> Share:
        """The share of one request; empty at first."""
        return Share(self)

    @contextmanager
    def share(self, size_bytes: int) -> Iterator[Share]:
        """Take a part for a block, or refuse."""
        with Share(self) as share:
            share.grow(size_bytes)
            yield share

    def check(self, size_bytes: int, held_bytes: int = 0) -> int:
        """Refuse what can never fit, beside what is held already; what has to be left for others."""
        # Large ones leave something for small ones: bombs that fill the memory do not keep a photo out.
        kept = self._reserve if size_bytes + held_bytes > self._reserve // 2 else 0
        if size_bytes > self.total_bytes - kept:
            raise TooLargeError(
                f"this takes {_mebibytes(size_bytes)} of memory; the server has {_mebibytes(self.total_bytes - kept)} "
                "for all requests together (--max-memory)"
            )
        return kept

    def _take(self, size_bytes: int, held_bytes: int, wait_seconds: float) -> None:
        kept = self.check(size_bytes, held_bytes)
        until = time.monotonic() + wait_seconds
        with self._changed:
            while size_bytes > self._left - kept:
                left = until - time.monotonic()
                if left <= 0:
                    raise FullError("the requests in progress fill the server's memory; try again later")
                self._changed.wait(left)
            self._left -= size_bytes

    def _give(self, size_bytes: int) -> None:
        with self._changed:
            self._left += size_bytes
            self._changed.notify_all()


class Share:
    """What one request holds. It may grow and shrink, and ends with the request; one thread at a time uses it."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0
        self._is_closed = False

    @property
    def size_bytes(self) -> int:
        return self._size

    def grow(self, size_bytes: int, *, wait_seconds: float = 0.0) -> None:
        """Take more. Refuse what never fits (413), and what does not fit now or within `wait_seconds` (429)."""
        self._budget._take(size_bytes, self._size, wait_seconds)
        self._size += size_bytes
        if self._is_closed:  # the request was given up while a thread waited for it
            self.close()

    def shrink(self, size_bytes: int) -> None:
        """Give a part back."""
        size_bytes = min(size_bytes, self._size)
        self._size -= size_bytes
        self._budget._give(size_bytes)

    def close(self) -> None:
        """Give all of it back."""
        self._is_closed = True
        self.shrink(self._size)

    def __enter__(self) -> Share:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):.1f} MiB"
