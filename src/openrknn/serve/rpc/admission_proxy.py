"""`AdmissionProxy`: the port that clients of gRPC reach. It asks for memory before a message is let in.

gRPC's own server takes a whole message into memory before anybody is asked, and as many at the same time as clients
send. So it listens on a socket in a private folder, and this proxy stands in front: it passes bytes on, sees how long
each message is going to be (`frames`), and holds a connection back until the budget has room. It also terminates TLS
(so that a new certificate is used from the next connection on) and counts connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import socket
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from openrknn.errors import UnsupportedError
from openrknn.serve.errors import ServeError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rpc.client_connection import CHUNK, Charge, ClientConnection, peer_name
from openrknn.serve.rpc.frames import Announced, FrameError
from openrknn.serve.settings import Limits
from openrknn.serve.timeouts import timeout

__all__ = ["AdmissionProxy", "private_folder"]

_FIRST_SILENT = 8
"""Calls that somebody new may make without a message."""
_BULK_BYTES = 1 << 20
"""A message of more bytes takes turns with others, piece by piece."""
_COST_OF_ABUSE = 8.0
"""Refusals that breaking the rules of HTTP/2 counts for."""
_FIRST_RESETS, _MOST_RESETS = 8, 1024
"""Calls that a client may give up without an answer in between."""
_COPIES = 2
"""Of a message: in gRPC's buffers, and as the bytes that we get."""
_SMALL_BYTES = 65535
"""gRPC's server takes so much of any stream unasked (the first window of HTTP/2); the call itself asks for it."""
_RETRY_SECONDS, _SHORT_SECONDS = 0.02, 1.0
_PLACES = (None, "/dev/shm", "/run")
"""Where a private folder may be; None: where the system keeps temporary files."""


def private_folder() -> Path:
    """A private folder."""
    for place in _PLACES:
        with contextlib.suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="openrknn-", dir=place))
    raise UnsupportedError("gRPC needs a writable folder for its socket: mount /tmp, set TMPDIR, or use --no-grpc")


class AdmissionProxy:
    """Between clients and gRPC's own server, which listens on `target`."""

    def __init__(self, folder: Path, limits: Limits, plane: Plane) -> None:
        self.target = str(folder / "grpc")
        self._folder, self._limits, self._budget, self._pacer = folder, limits, plane.budget, plane.pacer
        self._numbers = itertools.count()
        self._connections: set[ClientConnection] = set()
        self._server: asyncio.Server | None = None
        self._is_leaving = False
        self._transit: dict[int, list[Charge]] = {}
        """Messages that are let in and did not arrive yet, by size."""

    async def start(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Begin to take connections."""
        self._server = await asyncio.start_server(self._handle, sock=listener, ssl=tls, limit=CHUNK)

    def stop_listening(self) -> None:
        """New connections are refused; those that are there go on."""
        if self._server is not None:
            self._server.close()

    async def leave(self, seconds: float) -> None:
        """Send GOAWAY on every connection: it names the last accepted call, and all accepted calls are answered."""
        self._is_leaving = True
        for peer in self._connections:
            peer.leave()
        until = time.monotonic() + seconds
        while time.monotonic() < until and any(one.calls.open_streams for one in self._connections):
            await asyncio.sleep(_RETRY_SECONDS)
        until = time.monotonic() + _SHORT_SECONDS
        while time.monotonic() < until and self._connections:  # clients close, as they were told
            await asyncio.sleep(_RETRY_SECONDS)
        for peer in self._connections:
            peer.close()

    def close(self) -> None:
        """End everything."""
        self.stop_listening()
        for peer in list(self._connections):
            peer.abort()
        shutil.rmtree(self._folder, ignore_errors=True)

    def client(self, peer: str) -> str:
        """Who is behind a peer of gRPC's server."""
        number = peer.rpartition("-")[2]
        return next((one.client for one in self._connections if one.number == number), "")

    async def announced(self, peer: str) -> int:
        """Bytes of the message that is on its way to the only call of a connection; 0: it has several, or says nothing.

        Somebody new is waited for: gRPC's server begins a call before its message comes.
        """
        number = peer.rpartition("-")[2]
        found = next((one for one in self._connections if one.number == number), None)
        until = time.monotonic() + _SHORT_SECONDS
        while found is not None and found.calls.open_streams == 1:
            if found.announced or found.is_known or time.monotonic() > until:
                return max(found.announced.values(), default=0)
            await asyncio.sleep(_RETRY_SECONDS / 4)
        return 0

    def arrived(self, size_bytes: int) -> None:
        """A message was handed to us: from now on the call answers for its memory.

        Messages of the same size are interchangeable here: only the sum counts.
        """
        waiting = self._transit.get(size_bytes)
        if waiting:
            waiting[0].end()

    # -- one connection ------------------------------------------------------------------------------------------

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = ClientConnection(str(next(self._numbers)), peer_name(writer), writer)
        mine = [one for one in self._connections if one.key == peer.key]
        is_full = len(self._connections) >= self._limits.connections
        if (len(mine) >= self._limits.client_connections and not self._make_room(mine)) or (
            is_full and not self._make_room(self._connections)
        ):
            writer.transport.abort()
            return
        self._connections.add(peer)
        try:
            await self._relay(peer, reader, writer)
        except FrameError:  # what cannot be passed on
            self._pacer.refused(peer.key, _COST_OF_ABUSE)
        except ServeError:  # more than there is memory for, for too long
            self._pacer.refused(peer.key)
        except (OSError, asyncio.IncompleteReadError):
            pass  # somebody is gone
        finally:
            self._connections.discard(peer)
            peer.end()

    def _make_room(self, among: Collection[ClientConnection]) -> bool:
        """As for HTTP: the client that has most connections loses the one that is idle longest."""
        idle = [peer for peer in among if not peer.calls.open_streams]
        if not idle:
            return False
        counts = Counter(peer.key for peer in among)
        victim = max(idle, key=lambda peer: (counts[peer.key], -peer.since))
        self._connections.discard(victim)
        victim.abort()
        return True

    async def _relay(self, peer: ClientConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._pacer.turn(peer.key)
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Its name tells gRPC's server, and so the log, which connection it is.
            name = self._folder / f"c-{peer.number}"
            inner.bind(str(name))
            inner.setblocking(False)
            await asyncio.get_running_loop().sock_connect(inner, self.target)
            name.unlink()
        except OSError:
            inner.close()
            raise
        inner_reader, inner_writer = await asyncio.open_unix_connection(sock=inner, limit=CHUNK)
        peer.inner = inner_writer
        up = asyncio.ensure_future(self._up(peer, reader, inner_writer))
        down = asyncio.ensure_future(self._down(peer, inner_reader, writer))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            if up.done() and not down.done() and up.exception() is None:
                await asyncio.wait({down}, timeout=self._limits.send_seconds)
            elif up.done():
                up.result()
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)

    async def _up(self, peer: ClientConnection, reader: asyncio.StreamReader, inner: asyncio.StreamWriter) -> None:
        """From the client. Nothing of a message passes before there is room for all of it."""
        async with timeout(self._limits.header_seconds) as first:
            while data := await reader.read(peer.chunk):
                first.reschedule(None)
                if peer.sieve is not None:
                    data = peer.sieve.feed(data)
                if (peer.calls.has_begun and not peer.is_known) or peer.calls.largest_missing > _BULK_BYTES:
                    await self._pacer.turn(peer.key)
                for message in peer.calls.feed(data):
                    peer.announced[message.stream] = message.size_bytes
                    await self._admit(peer, message)
                for stream in peer.calls.reset:
                    peer.end_stream(stream)
                peer.resets += len(peer.calls.reset)
                if peer.resets > (_MOST_RESETS if peer.is_known else _FIRST_RESETS):
                    raise FrameError("calls are made and given up")
                if not peer.is_known and peer.calls.silent_streams > _FIRST_SILENT:
                    raise FrameError("calls without messages")
                self._check_silent()
                peer.calls.reset.clear()
                peer.calls.ended.clear()  # the client has said all; the call goes on
                inner.write(data)
                await inner.drain()
                if self._is_leaving:
                    peer.leave()
        if inner.can_write_eof():
            inner.write_eof()

    def _check_silent(self) -> None:
        """Calls that say nothing are bounded: the connection that has most of them goes."""
        counts = {peer: peer.calls.silent_streams for peer in self._connections}
        while sum(counts.values()) > self._limits.streams:
            worst = max(counts, key=lambda peer: counts[peer])
            del counts[worst]
            self._pacer.refused(worst.key, _COST_OF_ABUSE)
            worst.abort()

    async def _down(self, peer: ClientConnection, inner: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """To the client, which may be slow, up to a limit."""
        while data := await inner.read(CHUNK):
            for message in peer.answers.feed(data):
                peer.answered(message.stream)
                peer.is_known, peer.resets = True, 0  # errors have no message
            for stream in (*peer.answers.ended, *peer.answers.reset):
                peer.end_stream(stream)
            peer.answers.ended.clear()
            peer.answers.reset.clear()
            writer.write(data)
            if self._is_leaving:
                peer.leave()
            async with timeout(self._limits.send_seconds):
                await writer.drain()

    async def _admit(self, peer: ClientConnection, message: Announced) -> None:
        if message.size_bytes > self._limits.body_bytes:
            return  # gRPC's server refuses it by itself, without reading it
        if message.size_bytes <= _SMALL_BYTES and not message.is_compressed:
            return
        size = self._limits.body_bytes if message.is_compressed else message.size_bytes
        share = self._budget.open()
        # Waiting holds the whole connection back, and with it the rest of messages that were let in: if these hold the
        # memory, nothing would ever move. Such a connection is ended soon.
        is_deadly = peer.calls.is_inside_others(message.stream)
        until = time.monotonic() + (_SHORT_SECONDS if is_deadly else self._limits.body_seconds)
        while True:
            try:
                share.grow(_COPIES * size)
                break
            except ServeError:
                if time.monotonic() >= until or _COPIES * size > self._budget.total_bytes:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
        charge = Charge(self._forget, peer, message, share)
        peer.charges.append(charge)
        self._transit.setdefault(message.size_bytes, []).append(charge)

    def _forget(self, charge: Charge) -> None:
        waiting = self._transit.get(charge.size_bytes, [])
        if charge in waiting:
            waiting.remove(charge)
        if not waiting:
            self._transit.pop(charge.size_bytes, None)
