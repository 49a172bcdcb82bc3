"""A broker of MQTT 3.1.1 for tests: QoS 0 and 1, retained messages, last wills. It forgets everything when it ends."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import BinaryIO

__all__ = ["SmallBroker"]

CONNECT, PUBLISH, PUBACK, SUBSCRIBE, PINGREQ, DISCONNECT = 1, 3, 4, 8, 12, 14


class SmallBroker:
    """`messages` are (topic, payload), in the order of their arrival; `wait_for` waits until a condition holds."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.acknowledges = True
        self.messages: list[tuple[str, bytes]] = []
        self.retained: dict[str, bytes] = {}
        self.connections = 0
        self._changed = threading.Condition()
        self._open: list[socket.socket] = []
        self._subscribers: list[tuple[socket.socket, str]] = []
        self._is_closed = False
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> SmallBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gone, and every connection with it."""
        with self._changed:
            self._is_closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for thread in self._threads:
            thread.join(60)

    def drop(self) -> None:
        """Lose every connection, and forget what was retained: as a broker that was started again."""
        with self._changed:
            connections = list(self._open)
            self.retained.clear()
        for one in connections:
            with contextlib.suppress(OSError):  # it ends just now by itself
                one.shutdown(socket.SHUT_RDWR)

    def wait_for(self, condition: object, seconds: float = 60.0) -> None:
        """Until the condition holds; AssertionError where it never does."""
        assert callable(condition)
        with self._changed:
            assert self._changed.wait_for(condition, seconds), f"{len(self.messages)} messages came"

    def publish(self, topic: str, payload: bytes) -> None:
        """To whoever has subscribed to exactly this topic."""
        with self._changed:
            receivers = [one for one, wanted in self._subscribers if wanted == topic]
        name = topic.encode()
        body = len(name).to_bytes(2, "big") + name + payload
        for one in receivers:
            one.sendall(bytes([PUBLISH << 4]) + _length(len(body)) + body)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                if self._is_closed:
                    connection.close()
                    return
                self._open.append(connection)
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        will: tuple[str, bytes] | None = None
        try:
            stream = connection.makefile("rb")
            while head := stream.read(1):
                kind, flags = head[0] >> 4, head[0] & 15
                body = stream.read(_read_length(stream))
                if kind == DISCONNECT:
                    will = None
                    break
                if kind == CONNECT:
                    will = _will(body)
                self._answer(connection, kind, flags, body)
        except OSError:
            pass
        finally:
            with self._changed:
                self._open.remove(connection)
                self._subscribers = [entry for entry in self._subscribers if entry[0] is not connection]
                if will is not None:
                    self.retained[will[0]] = will[1]
                self._changed.notify_all()
            connection.close()

    def _answer(self, connection: socket.socket, kind: int, flags: int, body: bytes) -> None:
        if kind == CONNECT:
            with self._changed:
                self.connections += 1
                self._changed.notify_all()
            connection.sendall(b"\x20\x02\x00\x00")
        elif kind == PINGREQ:
            connection.sendall(b"\xd0\x00")
        elif kind == SUBSCRIBE:
            size = int.from_bytes(body[2:4], "big")
            with self._changed:
                self._subscribers.append((connection, body[4 : 4 + size].decode()))
                self._changed.notify_all()
            connection.sendall(b"\x90\x03" + body[:2] + b"\x00")
        elif kind == PUBLISH:
            size = int.from_bytes(body[:2], "big")
            topic, rest = body[2 : 2 + size].decode(), body[2 + size :]
            has_number = bool(flags & 6)
            payload = rest[2:] if has_number else rest
            with self._changed:
                self.messages.append((topic, payload))
                if flags & 1:
                    self.retained[topic] = payload
                self._changed.notify_all()
            if has_number and self.acknowledges:
                connection.sendall(b"\x40\x02" + rest[:2])


def _length(size: int) -> bytes:
    found = bytearray()
    while True:
        size, byte = size >> 7, size & 127
        found.append(byte | (128 if size else 0))
        if not size:
            return bytes(found)


def _read_length(stream: BinaryIO) -> int:
    size = shift = 0
    while True:
        byte = stream.read(1)[0]
        size |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            return size


def _will(body: bytes) -> tuple[str, bytes] | None:
    """Topic and message of a CONNECT's last will."""
    flags, at = body[7], 10
    texts = []
    while at < len(body):
        size = int.from_bytes(body[at : at + 2], "big")
        texts.append(body[at + 2 : at + 2 + size])
        at += 2 + size
    return (texts[1].decode(), texts[2]) if flags & 4 else None
