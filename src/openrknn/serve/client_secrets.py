"""Short-lived keys for one path: a web page opens a realtime session with one, and never sees the server's token."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Scope

from openrknn.serve.errors import FullError

__all__ = ["REALTIME", "ClientSecrets", "bearer_of"]

REALTIME = "/v1/realtime"
_PREFIX = "ek_"
_MOST = 1000
_KEY_PROTOCOL = "openai-insecure-api-key."


def bearer_of(scope: Scope) -> str | None:
    """The `Authorization` of a WebSocket. Browsers cannot send a header with one: OpenAI's clients name the key as a
    protocol."""
    offered: Iterable[str] = scope.get("subprotocols", ())
    names = [one for one in offered if one.startswith(_KEY_PROTOCOL)]
    return f"Bearer {names[0].removeprefix(_KEY_PROTOCOL)}" if names else Headers(scope=scope).get("authorization")


class ClientSecrets:
    """Keys and the session that each was made for. They are random and compared as keys of a table."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, Any]] = {}

    def make(self, session: Any, seconds: float) -> tuple[str, int]:
        """A key and when it expires."""
        now = self._clock()
        self._kept = {key: row for key, row in self._kept.items() if row[0] > now}
        if len(self._kept) >= _MOST:
            raise FullError(f"{_MOST} client secrets are valid at this time; try again when some have expired")
        key, until = f"{_PREFIX}{secrets.token_urlsafe(24)}", int(now + seconds)
        self._kept[key] = (until, session)
        return key, until

    def find(self, bearer: str | None) -> Any:
        """The session of `Bearer KEY`; None where there is no such key, or where it has expired."""
        kind, _, key = (bearer or "").partition(" ")
        until, session = self._kept.get(key.strip(), (0.0, None))
        return session if kind.lower() == "bearer" and until > self._clock() else None
