"""Connections with limits: how many there are, how long a request may take to arrive, and how large its head is."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from openrknn.serve.plane.clients import client_key
from openrknn.serve.settings import Limits

__all__ = ["ABORT", "DRAIN", "KNOWN", "MARK", "GuardedWebSocket", "guarded_protocol"]

ABORT, DRAIN = "openrknn.abort", "openrknn.drain"
"""In the ASGI scope: end the connection of a client that does not take its answer; wait until it has taken it."""
KNOWN, MARK = "openrknn.known", "openrknn.mark"
"""In the ASGI scope: whether the last request of this connection was valid, and how to set it for the next one."""
_GRACE_SECONDS = 5.0
"""The body's reader gives up first and can still say why."""
_LINGER_SECONDS = 1.0
"""While the server drains, a connection without a request stays for so long: one may be on its way. And a client that
was answered before it had sent its whole request may go on sending for so long."""
_MOST_HEADERS = 256
_MOST_PIECES, _SMALL_PIECE = 4096, 256
"""A body may come in so many chunks before small ones end its connection."""
_SHORT_BYTES = 16384
"""A body that leaves together with its head; copying more costs as much as a second packet."""
_TOO_LARGE = ("431 Request Header Fields Too Large", "the request line and headers are too large")
_NO_HTTP = ("400 Bad Request", "this is not HTTP that can be understood")


class GuardedWebSocket(WebSocketsSansIOProtocol):
    """A connection that became a WebSocket. It counts as one of its client's, and is never idle."""

    _is_waiting = False
    _since = 0.0
    _key = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self._key = client_key(peer[0]) if isinstance(peer, tuple) else ""
        super().connection_made(transport)


def guarded_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """uvicorn's HTTP with limits. A client that sends a byte now and then is sent away."""

    class GuardedProtocol(HttpToolsProtocol):
        _clock: asyncio.TimerHandle | None = None
        _is_surplus = False
        _is_large = False
        _is_leaving = False
        _is_goodbye = False
        """The last answer is written, and what the client still sends is thrown away."""
        _is_body_open = False
        """A request has begun and not ended."""
        _head_bytes = _parsed_bytes = _pieces = 0
        _is_waiting = True
        """For the head of a request."""
        _since = 0.0
        _key = ""
        """Who it is, for the limits of one client."""
        _is_known = False
        """Somebody whose last request was right."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            peer = transport.get_extra_info("peername")
            self._key = client_key(peer[0]) if isinstance(peer, tuple) else ""
            mine = [one for one in cast(set[Any], self.connections) if one._key == self._key]
            if (len(mine) >= limits.client_connections and not _make_room(self.connections, mine)) or (
                len(self.connections) >= limits.connections and not _make_room(self.connections, self.connections)
            ):
                self._is_surplus = True
                transport.abort()
                return
            super().connection_made(transport)
            self._since = time.monotonic()
            self._wind(limits.header_seconds)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            if not self._is_surplus:
                super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._is_surplus or self._is_goodbye:
                return
            self._head_bytes = self._head_bytes + len(data) if self._is_waiting else 0
            super().data_received(data)
            if self._is_waiting and self._head_bytes > limits.header_bytes and not self._is_goodbye:
                self._refuse(*_TOO_LARGE)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            scope = cast(dict[str, Any], self.scope)
            scope[ABORT], scope[DRAIN], scope[KNOWN] = self._abort, self.flow.drain, self._is_known
            scope[MARK] = self._mark
            self._parsed_bytes, self._pieces, self._is_waiting = 0, 0, True
            self._wind(limits.header_seconds)

        def _mark(self, *, is_known: bool) -> None:
            self._is_known = is_known

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value))
            super().on_header(name, value)

        def _count(self, size: int) -> None:
            self._parsed_bytes += size
            if self._parsed_bytes > limits.header_bytes or len(self.headers) >= _MOST_HEADERS:
                self._is_large = True
                raise ValueError("the head is too large")  # the parser stops, and `send_400_response` answers

        def send_400_response(self, msg: str) -> None:
            self._refuse(*(_TOO_LARGE if self._is_large else _NO_HTTP))

        def _refuse(self, status: str, reason: str) -> None:
            """An answer to what never became a request."""
            if self.transport.is_closing():
                return
            body = json.dumps({"error": reason})
            self.transport.write(
                f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n"
                f"content-length: {len(body)}\r\n\r\n{body}".encode()
            )
            self._say_goodbye()

        def _say_goodbye(self) -> None:
            """Close when the client does, or after a while. To close while it sends would be a reset, and a client that
            is reset may lose the answer that says why."""
            self._is_goodbye = True
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self.flow.resume_reading()
            self._wind(_LINGER_SECONDS if self._is_leaving else limits.body_seconds)

        def close_after_answer(self) -> None:
            """The answer is written and this connection is not kept."""
            if self._is_body_open and not self.transport.is_closing():
                self._say_goodbye()
            else:
                self.transport.close()

        def on_headers_complete(self) -> None:
            self._is_waiting, self._head_bytes, self._is_body_open = False, 0, True
            self._wind(limits.body_seconds + _GRACE_SECONDS)
            super().on_headers_complete()
            if self._should_upgrade():
                return  # the request goes on as a WebSocket
            ours = _Transport(self.transport, self.close_after_answer, self.loop)
            self.cycle.transport = cast(asyncio.Transport, ours)

        def handle_websocket_upgrade(self) -> None:
            self._stop()
            super().handle_websocket_upgrade()

        def on_body(self, body: bytes) -> None:
            self._pieces += 1
            if self._pieces > _MOST_PIECES and len(body) < _SMALL_PIECE:
                # Each is a call of Python: a hundred thousand chunks of a byte would keep everybody waiting.
                self._abort()
                raise ValueError("the chunks of the body are too small")
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._stop()
            self._is_body_open = False
            if self._should_upgrade():
                return
            if self.cycle.response_complete:  # it was answered before it had ended
                self._is_waiting, self._since = True, time.monotonic()
            super().on_message_complete()

        def on_response_complete(self) -> None:
            # What is left of a request that was refused is no head of the next one.
            self._is_waiting = not self._is_body_open and not self.pipeline
            self._since = time.monotonic()
            super().on_response_complete()

        def shutdown(self) -> None:
            """Requests in progress and requests that have already been sent are answered."""
            self._is_leaving = True
            if self._is_goodbye:
                self.transport.close()
            elif self._is_waiting:
                self.loop.call_later(_LINGER_SECONDS, self._leave)
            else:
                super().shutdown()

        def _leave(self) -> None:
            if self._is_waiting:
                self.transport.close()
            else:
                super().shutdown()

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


class _Transport:
    """The transport as an answer sees it: its way to close is ours, and a short answer leaves in one piece.

    uvicorn writes head and body one after the other. Each is a packet, and each wakes the client: half of what a short
    answer costs. So the head waits for the body until the loop turns.
    """

    def __init__(
        self, transport: asyncio.Transport, close: Callable[[], None], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._transport, self._close, self._loop = transport, close, loop
        self._head: bytes | None = None
        self._has_head = False
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """The head at first."""
        if not self._has_head:
            self._has_head, self._head = True, data
            self._loop.call_soon(self._flush)
        elif self._head is not None and len(data) <= _SHORT_BYTES:
            head, self._head = self._head, None
            self._transport.write(head + data)
        else:
            self._flush()
            self._transport.write(data)

    def _flush(self) -> None:
        head, self._head = self._head, None
        if head is not None:
            self._transport.write(head)

    def close(self) -> None:
        """After what was written."""
        self._flush()
        self._close()


def _make_room(connections: set[Any], among: Collection[Any]) -> bool:
    """End the one among these that has been idle longest, of the client that has most; False where none is idle.

    A client that opens all connections loses its own, and probes of a cluster get through.
    """
    idle = [one for one in among if one._is_waiting]
    if not idle:
        return False
    counts = Counter(one._key for one in among)
    victim = max(idle, key=lambda one: (counts[one._key], -one._since))
    connections.discard(victim)
    victim._abort()
    return True
