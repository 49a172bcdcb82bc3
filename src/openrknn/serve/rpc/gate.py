"""`Gate`: the port that clients of gRPC reach. It asks for memory before a message is let in.

gRPC's own server takes a whole message into memory before anybody is asked, and as many at the same time as clients
send. So it listens on a socket in a private folder, and the gate stands in front: it passes bytes on, sees how long
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
from pathlib import Path

from openrknn.errors import UnsupportedError
from openrknn.serve.errors import ServeError
from openrknn.serve.plane.budget import Budget, Share
from openrknn.serve.rpc.frames import Announced, FrameError, Frames
from openrknn.serve.settings import Limits
from openrknn.serve.timeouts import timeout

__all__ = ["Gate", "private_folder"]

_CHUNK = 256 * 1024
_COPIES = 2
"""Of a message: in gRPC's buffers, and as the bytes that we get."""
_SMALL_BYTES = 65535
"""gRPC's server takes so much of any stream unasked (the first window of HTTP/2); the call itself asks for it."""
_RETRY_SECONDS, _SHORT_SECONDS = 0.02, 1.0
_PLACES = (None, "/dev/shm", "/run")
"""Where a private folder may be; None: where the system keeps temporary files."""


def private_folder() -> Path:
    """A folder that nobody else may enter."""
    for place in _PLACES:
        with contextlib.suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="openrknn-", dir=place))
    raise UnsupportedError("gRPC needs a writable folder for its socket: mount /tmp, set TMPDIR, or use --no-grpc")


class Gate:
    """Between clients and gRPC's own server, which listens on `target`."""

    def __init__(self, folder: Path, limits: Limits, budget: Budget) -> None:
        self.target = str(folder / "grpc")
        self._folder, self._limits, self._budget = folder, limits, budget
        self._numbers = itertools.count()
        self._visits: set[_Visit] = set()
        self._server: asyncio.Server | None = None
        self._transit: dict[int, list[_Charge]] = {}
        """Messages that are let in and did not arrive yet, by size."""

    async def start(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Begin to take connections."""
        self._server = await asyncio.start_server(self._visit, sock=listener, ssl=tls, limit=_CHUNK)

    def stop_listening(self) -> None:
        """New connections are refused; those that are there go on."""
        if self._server is not None:
            self._server.close()

    def close(self) -> None:
        """End everything."""
        self.stop_listening()
        for visit in list(self._visits):
            visit.abort()
        shutil.rmtree(self._folder, ignore_errors=True)

    def client(self, peer: str) -> str:
        """Who is behind a peer of gRPC's server."""
        number = peer.rpartition("-")[2]
        return next((visit.client for visit in self._visits if visit.number == number), "")

    def arrived(self, size_bytes: int) -> None:
        """A message was handed to us: from now on the call answers for its memory.

        Messages of the same size are interchangeable here: only the sum counts.
        """
        waiting = self._transit.get(size_bytes)
        if waiting:
            waiting[0].end()

    # -- one connection ------------------------------------------------------------------------------------------

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._visits) >= self._limits.connections and not self._make_room():
            writer.transport.abort()
            return
        visit = _Visit(str(next(self._numbers)), _name(writer), writer)
        self._visits.add(visit)
        try:
            await self._relay(visit, reader, writer)
        except (OSError, FrameError, ServeError, asyncio.IncompleteReadError):
            pass  # somebody is gone, or says what cannot be passed on
        finally:
            self._visits.discard(visit)
            visit.end()

    def _make_room(self) -> bool:
        """As for HTTP: the client that has most connections loses the one that is idle longest."""
        idle = [visit for visit in self._visits if not visit.calls.open_streams]
        if not idle:
            return False
        counts = Counter(visit.client.rpartition(":")[0] for visit in self._visits)
        victim = max(idle, key=lambda visit: (counts[visit.client.rpartition(":")[0]], -visit.since))
        self._visits.discard(victim)
        victim.abort()
        return True

    async def _relay(self, visit: _Visit, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Its name tells gRPC's server, and so the log, which connection it is.
            name = self._folder / f"c-{visit.number}"
            inner.bind(str(name))
            inner.setblocking(False)
            await asyncio.get_running_loop().sock_connect(inner, self.target)
            name.unlink()
        except OSError:
            inner.close()
            raise
        inner_reader, inner_writer = await asyncio.open_unix_connection(sock=inner, limit=_CHUNK)
        visit.inner = inner_writer
        up = asyncio.ensure_future(self._up(visit, reader, inner_writer))
        down = asyncio.ensure_future(self._down(visit, inner_reader, writer))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            if up.done() and not down.done() and up.exception() is None:
                await asyncio.wait({down}, timeout=self._limits.send_seconds)
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)

    async def _up(self, visit: _Visit, reader: asyncio.StreamReader, inner: asyncio.StreamWriter) -> None:
        """From the client. Nothing of a message passes before there is room for all of it."""
        async with timeout(self._limits.header_seconds) as first:
            while data := await reader.read(_CHUNK):
                first.reschedule(None)
                for message in visit.calls.feed(data):
                    await self._admit(visit, message)
                for stream in visit.calls.reset:
                    visit.end_stream(stream)
                visit.calls.reset.clear()
                visit.calls.ended.clear()  # the client has said all; the call goes on
                inner.write(data)
                await inner.drain()
        if inner.can_write_eof():
            inner.write_eof()

    async def _down(self, visit: _Visit, inner: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """To the client, who may take its time but not for ever."""
        while data := await inner.read(_CHUNK):
            for message in visit.answers.feed(data):
                visit.answered(message.stream)
            for stream in (*visit.answers.ended, *visit.answers.reset):
                visit.end_stream(stream)
            visit.answers.ended.clear()
            visit.answers.reset.clear()
            writer.write(data)
            async with timeout(self._limits.send_seconds):
                await writer.drain()

    async def _admit(self, visit: _Visit, message: Announced) -> None:
        if message.size_bytes > self._limits.body_bytes:
            return  # gRPC's server refuses it by itself, without reading it
        if message.size_bytes <= _SMALL_BYTES and not message.is_compressed:
            return
        size = self._limits.body_bytes if message.is_compressed else message.size_bytes
        share = self._budget.open()
        # Waiting holds the whole connection back, and with it the rest of messages that were let in: if these hold the
        # memory, nothing would ever move. Such a connection is ended soon.
        is_deadly = visit.calls.is_inside_others(message.stream)
        until = time.monotonic() + (_SHORT_SECONDS if is_deadly else self._limits.body_seconds)
        while True:
            try:
                share.grow(_COPIES * size)
                break
            except ServeError:
                if time.monotonic() >= until or _COPIES * size > self._budget.total_bytes:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
        charge = _Charge(self, visit, message, share)
        visit.charges.append(charge)
        self._transit.setdefault(message.size_bytes, []).append(charge)

    def _forget(self, charge: _Charge) -> None:
        waiting = self._transit.get(charge.size_bytes, [])
        if charge in waiting:
            waiting.remove(charge)
        if not waiting:
            self._transit.pop(charge.size_bytes, None)


class _Charge:
    """The memory of one message on its way."""

    def __init__(self, gate: Gate, visit: _Visit, message: Announced, share: Share) -> None:
        self._gate, self._visit, self._share = gate, visit, share
        self.stream, self.size_bytes = message.stream, message.size_bytes
        self.is_compressed = message.is_compressed

    def end(self) -> None:
        self._share.close()
        self._gate._forget(self)
        if self in self._visit.charges:
            self._visit.charges.remove(self)


class _Visit:
    """One connection of a client."""

    def __init__(self, number: str, client: str, writer: asyncio.StreamWriter) -> None:
        self.number, self.client, self.since = number, client, time.monotonic()
        self._writer = writer
        self.inner: asyncio.StreamWriter | None = None
        self.calls, self.answers = Frames(is_client=True), Frames(is_client=False)
        self.charges: list[_Charge] = []

    def answered(self, stream: int) -> None:
        """One answer for one message. Compressed ones arrive with another size, so this is how they are noticed."""
        for charge in [one for one in self.charges if one.stream == stream and one.is_compressed][:1]:
            charge.end()

    def end_stream(self, stream: int) -> None:
        """The server has answered: whatever is left of its messages is dropped."""
        self.calls.forget(stream)
        self.answers.forget(stream)
        self.since = time.monotonic()
        for charge in [one for one in self.charges if one.stream == stream]:
            charge.end()

    def abort(self) -> None:
        self._writer.transport.abort()

    def end(self) -> None:
        for charge in list(self.charges):
            charge.end()
        for writer in (self._writer, self.inner):
            if writer is not None:
                writer.close()


def _name(writer: asyncio.StreamWriter) -> str:
    found = writer.get_extra_info("peername")
    return f"{found[0]}:{found[1]}" if found else ""
