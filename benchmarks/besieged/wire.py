"""gRPC by hand: frames of HTTP/2 from an address of choice, by a client that may misbehave."""

from __future__ import annotations

import select
import socket
import time

__all__ = ["Call", "Http2", "message"]

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST, _SETTINGS, _PING, _GOAWAY, _WINDOW, _CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
_FIRST_WINDOW, _FRAME = 65535, 16384


def message(raw: bytes, *, is_compressed: bool = False) -> bytes:
    """A message of gRPC: a flag and a length in front of it."""
    return bytes([is_compressed]) + len(raw).to_bytes(4, "big") + raw


def _integer(value: int) -> bytes:
    """HPACK, 7 bits of prefix, no Huffman."""
    if value < 127:
        return bytes([value])
    made, value = bytearray([127]), value - 127
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


class Call:
    """One stream: its window and how it ended."""

    def __init__(self, stream: int, window: int) -> None:
        self.stream, self.window = stream, window
        self.is_over = False


class Http2:
    """One connection."""

    def __init__(self, port: int, source: str, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self.socket = socket.create_connection(("127.0.0.1", port), seconds, source_address=(source, 0))
        self._left = b""
        self._window = self._first = _FIRST_WINDOW
        self._next = 1
        self.calls: dict[int, Call] = {}
        self.is_over = False
        self.socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0, b""))

    def call(self, path: str, token: str | None, *more: tuple[str, str]) -> Call:
        """Open a stream."""
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
                  ("te", "trailers"), ("content-type", "application/grpc")]  # fmt: skip
        if token is not None:
            fields.append(("authorization", f"Bearer {token}"))
        block = b"".join(
            b"\0" + _integer(len(name)) + name.encode() + _integer(len(value)) + value.encode()
            for name, value in (*fields, *more)
        )
        made = Call(self._next, self._first)
        self._next += 2
        self.calls[made.stream] = made
        pieces = [block[at : at + _FRAME] for at in range(0, len(block), _FRAME)]
        for number, piece in enumerate(pieces):
            flags = 4 if number == len(pieces) - 1 else 0
            self.socket.sendall(_frame(_CONTINUATION if number else _HEADERS, flags, made.stream, piece))
        return made

    def send(self, call: Call, data: bytes) -> bool:
        """As far as the other side lets it; False: it is over, or takes too long."""
        view, at = memoryview(data), 0
        while at < len(view):
            while min(self._window, call.window) <= 0:
                if not self.hear() or call.is_over:
                    return False
            size = min(_FRAME, self._window, call.window, len(view) - at)
            self.socket.sendall(_frame(_DATA, 0, call.stream, bytes(view[at : at + size])))
            self._window -= size
            call.window -= size
            at += size
            self.hear(0)
            if call.is_over or self.is_over:
                return False
        return True

    def end(self, call: Call) -> bool:
        """Say that there is no more, and wait for the end of the answer."""
        self.socket.sendall(_frame(_DATA, 1, call.stream, b""))
        while not call.is_over:
            if not self.hear():
                return False
        return True

    def reset(self, call: Call) -> None:
        """Give it up."""
        self.socket.sendall(_frame(_RST, 0, call.stream, (8).to_bytes(4, "big")))
        self.calls.pop(call.stream, None)

    def ping(self) -> None:
        """Ask for an answer of the connection."""
        self.socket.sendall(_frame(_PING, 0, 0, bytes(8)))

    def hear(self, seconds: float | None = None) -> bool:
        """Take what the other side says; False: nothing in time, or it is gone."""
        wait = max(0.0, self._until - time.monotonic()) if seconds is None else seconds
        if self.is_over or not select.select([self.socket], [], [], wait)[0]:
            return False
        data = self.socket.recv(65536)
        if not data:
            self.is_over = True
            return False
        self._left += data
        while len(self._left) >= 9:
            size = int.from_bytes(self._left[:3], "big")
            if len(self._left) < 9 + size:
                break
            kind, flags = self._left[3], self._left[4]
            stream = int.from_bytes(self._left[5:9], "big") & 0x7FFFFFFF
            self._frame(kind, flags, stream, self._left[9 : 9 + size])
            self._left = self._left[9 + size :]
        return True

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        call = self.calls.get(stream)
        if kind == _WINDOW:
            grown = int.from_bytes(payload[:4], "big")
            if stream == 0:
                self._window += grown
            elif call is not None:
                call.window += grown
        elif kind == _SETTINGS and not flags & 1:
            for at in range(0, len(payload) - 5, 6):
                if int.from_bytes(payload[at : at + 2], "big") == 4:
                    first = int.from_bytes(payload[at + 2 : at + 6], "big")
                    for one in self.calls.values():
                        one.window += first - self._first
                    self._first = first
            self.socket.sendall(_frame(_SETTINGS, 1, 0, b""))
        elif kind == _PING and not flags & 1:
            self.socket.sendall(_frame(_PING, 1, 0, payload))
        elif kind == _GOAWAY:
            self.is_over = True
        elif call is not None and (kind == _RST or (kind in {_DATA, _HEADERS} and flags & 1)):
            call.is_over = True
            self.calls.pop(stream, None)

    def close(self) -> None:
        """Without a word."""
        self.socket.close()
