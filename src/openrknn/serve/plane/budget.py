"""`Budget`: the memory that all requests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from openrknn.serve.errors import FullError

__all__ = ["Budget"]


class Budget:
    """Bytes of all requests that are being read, waiting or answered. Used on the server's loop only: no lock."""

    def __init__(self, total_bytes: int) -> None:
        self._left = total_bytes

    @contextmanager
    def share(self, size_bytes: int) -> Iterator[None]:
        """Take a part, or refuse."""
        if size_bytes > self._left:
            raise FullError("the requests under way fill the server's memory; try again later")
        self._left -= size_bytes
        try:
            yield
        finally:
            self._left += size_bytes
