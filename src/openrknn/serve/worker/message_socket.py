"""`MessageSocket`: JSON messages between the server and a worker, with descriptors beside them where needed."""

from __future__ import annotations

import array
import contextlib
import socket
import struct
import time
from typing import Any

import orjson

from openrknn.errors import RknnError

__all__ = ["ClosedSocketError", "MessageError", "MessageSocket", "SlowSocketError"]

_LENGTH = struct.Struct("<I")
_MOST_BYTES = 64 * 1024 * 1024
"""A report of a large model is the longest message; a hostile worker shall not make the server allocate more."""
_MOST_DESCRIPTORS = 4


class MessageError(RknnError):
    """The other side said something that is not a message."""


class ClosedSocketError(MessageError):
    """The other side is gone."""


class SlowSocketError(MessageError):
    """The other side did not answer in time."""


class MessageSocket:
    """One end of a connected stream socket. One thread at a time uses it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, words: dict[str, Any], descriptors: list[int] | None = None) -> None:
        """Send one message; descriptors travel with its first byte."""
        text = orjson.dumps(words, option=orjson.OPT_NON_STR_KEYS)
        if len(text) > _MOST_BYTES:
            raise MessageError(f"a message of {len(text)} bytes is too long; the limit is {_MOST_BYTES}")
        data = _LENGTH.pack(len(text)) + text
        try:
            self._connection.settimeout(None)
            if descriptors:
                sent = socket.send_fds(self._connection, [data], descriptors)
                data = data[sent:]
            self._connection.sendall(data)
        except OSError:
            raise ClosedSocketError("the connection is closed") from None

    def receive(self, seconds: float | None = None) -> dict[str, Any]:
        """The next message; SlowSocketError after `seconds`."""
        return self.receive_with_descriptors(seconds, 0)[0]

    def receive_with_descriptors(self, seconds: float | None, most: int) -> tuple[dict[str, Any], list[int]]:
        """The next message and up to `most` descriptors that came with it."""
        until = None if seconds is None else time.monotonic() + seconds
        head, found = self._read(_LENGTH.size, until, min(most, _MOST_DESCRIPTORS))
        (size,) = _LENGTH.unpack(head)
        if size > _MOST_BYTES:
            raise MessageError(f"a message of {size} bytes was announced; the limit is {_MOST_BYTES}")
        text, _ = self._read(size, until, 0)
        try:
            words = orjson.loads(text)
        except ValueError:
            raise MessageError("a message is not JSON") from None
        if not isinstance(words, dict):
            raise MessageError("a message is not a JSON object")
        return words, found

    def _read(self, size: int, until: float | None, descriptors: int) -> tuple[bytes, list[int]]:
        parts, missing = [], size
        found = array.array("i")
        while missing:
            try:
                self._connection.settimeout(None if until is None else max(1e-3, until - time.monotonic()))
                if descriptors:
                    part, fds, _, _ = socket.recv_fds(self._connection, missing, descriptors)
                    found.extend(fds)
                else:
                    part = self._connection.recv(min(missing, 1 << 20))
            except TimeoutError:
                raise SlowSocketError("no answer in time") from None
            except OSError:
                raise ClosedSocketError("the connection is closed") from None
            if not part:
                raise ClosedSocketError("the connection is closed")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts), list(found)

    def shut(self) -> None:
        """End the connection: a thread that reads from it gets an error."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end."""
        self._connection.close()
