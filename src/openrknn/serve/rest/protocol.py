"""Connections with limits: how many there are, and how long a request may take to arrive."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from openrknn.serve.settings import Limits

__all__ = ["ABORT", "guarded_protocol"]

ABORT = "openrknn.abort"
"""In the ASGI scope: ends the connection of a client that does not take its answer."""
_GRACE_SECONDS = 5.0
"""The body's reader gives up first and can still say why."""


def guarded_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """uvicorn's HTTP with a clock for requests: a client that sends a byte now and then is sent away."""

    class GuardedProtocol(HttpToolsProtocol):
        _clock: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            if len(self.connections) >= limits.connections:
                self._is_surplus = True
                transport.abort()
                return
            super().connection_made(transport)
            self._wind(limits.header_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            if not getattr(self, "_is_surplus", False):
                super().connection_lost(exc)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            cast(dict[str, Any], self.scope)[ABORT] = self._abort
            self._wind(limits.header_seconds)

        def on_headers_complete(self) -> None:
            self._wind(limits.body_seconds + _GRACE_SECONDS)
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._stop()
            super().on_message_complete()

        def _wind(self, seconds: float) -> None:
            self._stop()
            self._clock = self.loop.call_later(seconds, self._abort)

        def _stop(self) -> None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None

        def _abort(self) -> None:
            """At once: without this option the kernel would keep what the client does not take for many minutes."""
            found = self.transport.get_extra_info("socket")
            if found is not None:
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()

    return GuardedProtocol
