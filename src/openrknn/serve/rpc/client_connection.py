"""`ClientConnection`: one connection to the proxy, what it holds, and how much of it is let through at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from openrknn.serve.plane.budget import Share
from openrknn.serve.plane.clients import client_key
from openrknn.serve.rpc.frames import Announced, Frames, Sieve, goaway

__all__ = ["CHUNK", "Charge", "ClientConnection", "peer_name"]

CHUNK, _FIRST_CHUNK = 64 * 1024, 1024
"""Bytes that are passed on at a time; the second for somebody new: a few calls."""
_MOST_STREAMS = 256
"""Of one connection; well-behaved clients keep to what gRPC's server tells them."""


class Charge:
    """The memory of one message on its way."""

    def __init__(
        self, forget: Callable[[Charge], None], peer: ClientConnection, message: Announced, share: Share
    ) -> None:
        self._forget, self._peer, self._share = forget, peer, share
        self.stream, self.size_bytes = message.stream, message.size_bytes
        self.is_compressed = message.is_compressed

    def end(self) -> None:
        """Give it back."""
        self._share.close()
        self._forget(self)
        if self in self._peer.charges:
            self._peer.charges.remove(self)


class ClientConnection:
    """One connection of a client."""

    def __init__(self, number: str, client: str, writer: asyncio.StreamWriter) -> None:
        self.number, self.client, self.since = number, client, time.monotonic()
        self.key = client_key(client.rpartition(":")[0].strip("[]"))
        self.is_known = False
        """Somebody who was answered before; others take turns."""
        self.resets = 0
        self.announced: dict[int, int] = {}
        """Call -> bytes of its last message."""
        self.sieve: Sieve | None = None
        """Where it was told to go."""
        self._writer = writer
        self.inner: asyncio.StreamWriter | None = None
        self.calls, self.answers = Frames(is_client=True, most_streams=_MOST_STREAMS), Frames(is_client=False)
        self.charges: list[Charge] = []

    @property
    def chunk(self) -> int:
        """Bytes that are passed on at a time."""
        return CHUNK if self.is_known or self.calls.largest_missing else _FIRST_CHUNK

    def answered(self, stream: int) -> None:
        """One answer for one message. Compressed ones arrive with another size, so this is how they are noticed."""
        for charge in [one for one in self.charges if one.stream == stream and one.is_compressed][:1]:
            charge.end()

    def end_stream(self, stream: int) -> None:
        """The server has answered: whatever is left of its messages is dropped."""
        self.calls.forget(stream)
        self.announced.pop(stream, None)
        self.answers.forget(stream)
        self.since = time.monotonic()
        for charge in [one for one in self.charges if one.stream == stream]:
            charge.end()

    def leave(self) -> None:
        """Tell the client to make no more calls here, between two frames; what was taken is answered."""
        if self.sieve is None and self.calls.is_between and self.answers.is_between:
            self.sieve = Sieve(self.calls.last_stream)
            self._writer.write(goaway(self.calls.last_stream))

    def close(self) -> None:
        """After what was written."""
        self._writer.close()

    def abort(self) -> None:
        """At once."""
        self._writer.transport.abort()

    def end(self) -> None:
        """Give everything back, and close."""
        for charge in list(self.charges):
            charge.end()
        for writer in (self._writer, self.inner):
            if writer is not None:
                writer.close()


def peer_name(writer: asyncio.StreamWriter) -> str:
    """Address and port of a client."""
    found = writer.get_extra_info("peername")
    return f"{found[0]}:{found[1]}" if found else ""
