"""The token that clients send: from the start, or from a file that may be replaced while the server runs."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Callable
from pathlib import Path

from openrknn.serve.stamps import stamp_of

__all__ = ["Tokens", "is_right_token", "read_token"]

_LOG = logging.getLogger(__name__)
_MOST_BYTES = 65536


def is_right_token(given: str | None, token: str) -> bool:
    """`Bearer TOKEN`, compared without telling by the time how much of it is right."""
    kind, _, value = (given or "").partition(" ")
    # Headers are bytes; Starlette reads them as Latin-1.
    return kind.lower() == "bearer" and hmac.compare_digest(value.strip().encode("latin-1", "replace"), token.encode())


def read_token(file: str | Path) -> str:
    """What is in the file, without the end of its line; empty: nothing."""
    with Path(file).open("rb") as stream:
        return stream.read(_MOST_BYTES).decode("utf-8").strip()


class Tokens:
    """The token now, and for a while the one before it: clients and servers are never told at the same moment."""

    def __init__(
        self,
        token: str | None,
        file: str | None = None,
        *,
        grace_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.current = token
        self._file, self._grace, self._clock = file, grace_seconds, clock
        self._old: str | None = None
        self._old_until = 0.0
        self._stamp = stamp_of(file)

    @property
    def valid(self) -> tuple[str, ...]:
        """All that are good now."""
        if self.current is None:
            return ()
        has_old = self._old is not None and self._clock() < self._old_until
        return (self.current, self._old) if has_old and self._old is not None else (self.current,)

    def is_right(self, header: str | None) -> bool:
        """Whether an `Authorization` header has one of them; without a token everything is right."""
        return self.current is None or any(is_right_token(header, token) for token in self.valid)

    def refresh(self) -> bool:
        """Read the file again where it has changed; whether there is a new token."""
        stamp = stamp_of(self._file)
        if self._file is None or self.current is None or stamp is None or stamp == self._stamp:
            return False
        self._stamp = stamp
        try:
            token = read_token(self._file)
        except (OSError, ValueError) as error:
            _LOG.error("the token file cannot be read, the old token stays: %s", error)
            return False
        if not token:
            _LOG.error("the token file is empty; the old token stays")
            return False
        if token == self.current:
            return False
        self._old, self._old_until = self.current, self._clock() + self._grace
        self.current = token
        _LOG.info("the token has changed; the old one is good for another %g s", self._grace)
        return True
