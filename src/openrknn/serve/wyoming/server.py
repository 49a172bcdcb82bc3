"""`WyomingServer`: the socket and its connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import Counter
from dataclasses import dataclass
from urllib.parse import urlsplit

from openrknn.errors import UnsupportedError
from openrknn.serve.errors import ServeError
from openrknn.serve.plane.clients import client_key
from openrknn.serve.plane.plane import Plane
from openrknn.serve.timeouts import timeout
from openrknn.serve.wyoming.codec import Decoder, Event, Send, encode, error_event
from openrknn.serve.wyoming.connection import Connection

__all__ = ["WyomingServer"]

_LOG = logging.getLogger(__name__)
_MOST_CONNECTIONS = 64
_IDLE_SECONDS = 300.0
"""A client that says nothing for so long is gone; a microphone sends all the time."""
_READ_BYTES = 64 * 1024


@dataclass(slots=True, eq=False)
class _Open:
    task: asyncio.Task[None]
    connection: Connection
    client: str


class WyomingServer:
    """Listens on tcp://HOST:PORT or unix://PATH. The protocol knows no tokens: who reaches it may use it."""

    def __init__(self, plane: Plane, address: str) -> None:
        self._plane = plane
        self._where = urlsplit(address)
        if self._where.scheme not in {"tcp", "unix"}:
            raise UnsupportedError(f"--wyoming takes tcp://HOST:PORT or unix://PATH, not {address!r}")
        self._connections: set[_Open] = set()
        self._server: asyncio.Server | None = None
        self._is_draining = False
        self.address = ""

    async def start(self) -> None:
        """Begin to listen."""
        where = self._where
        try:
            if where.scheme == "unix":
                path = where.netloc + where.path
                self._server = await asyncio.start_unix_server(self._serve, path)
                self.address = f"unix://{path}"
                return
            self._server = await asyncio.start_server(self._serve, where.hostname or "127.0.0.1", where.port or 0)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UnsupportedError(f"Wyoming cannot listen on {where.geturl()}: {reason}") from None
        host = f"[{where.hostname}]" if ":" in (where.hostname or "") else where.hostname or "127.0.0.1"
        self.address = f"tcp://{host}:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self, seconds: float) -> None:
        """No new connections; those that are in the middle of something may end it."""
        self._is_draining = True
        if self._server is None:
            return
        self._server.close()
        for one in list(self._connections):
            if not one.connection.is_busy:
                one.task.cancel()
        tasks = {one.task for one in self._connections}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._where.scheme == "unix":
            with contextlib.suppress(OSError):
                os.unlink(self._where.netloc + self._where.path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None

        async def send(event: Event) -> None:
            writer.write(encode(event))
            async with timeout(self._plane.settings.limits.send_seconds):
                await writer.drain()

        peer = writer.get_extra_info("peername")
        opened = _Open(task, Connection(self._plane, send), client_key(peer[0]) if isinstance(peer, tuple) else "")
        if len(self._connections) >= _MOST_CONNECTIONS and not self._make_room():
            _LOG.warning("Wyoming: %d connections are open; one more is sent away", len(self._connections))
            writer.close()
            return
        self._connections.add(opened)
        try:
            await self._converse(reader, opened.connection, send)
        except (OSError, TimeoutError, asyncio.CancelledError):  # gone, silent, or the server stops
            pass
        finally:
            self._connections.discard(opened)
            with contextlib.suppress(Exception):
                await opened.connection.close()
            writer.close()

    def _make_room(self) -> bool:
        """An idle connection of the client that has most of them goes; False where none is idle."""
        idle = [one for one in self._connections if not one.connection.is_busy]
        if not idle:
            return False
        counts = Counter(one.client for one in self._connections)
        victim = max(idle, key=lambda one: counts[one.client])
        self._connections.discard(victim)
        victim.task.cancel()
        return True

    async def _converse(self, reader: asyncio.StreamReader, connection: Connection, send: Send) -> None:
        decoder = Decoder()
        while not (self._is_draining and not connection.is_busy):
            async with timeout(_IDLE_SECONDS):
                data = await reader.read(_READ_BYTES)
            if not data:
                return
            try:
                events = decoder.feed(data)
            except ServeError as error:  # nothing that follows can be understood
                await send(error_event(error))
                return
            for event in events:
                await connection.on(event)
