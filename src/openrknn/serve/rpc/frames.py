"""HTTP/2 frames as far as sizes go: which messages of gRPC are announced, and which calls are over.

A frame: 24 bits of length, 8 of type, 8 of flags, 32 of stream, then the payload (RFC 9113, section 4.1). A message
inside DATA frames: one byte "compressed", four bytes of length, then the message (gRPC over HTTP/2). Headers are packed
(HPACK) and not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Announced", "FrameError", "Frames", "Sieve", "goaway"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD, _PREFIX = 9, 5
_DATA, _HEADERS, _RST_STREAM, _GOAWAY, _CONTINUATION = 0, 1, 3, 7, 9
_END_STREAM, _PADDED = 0x1, 0x8
_MOST_STREAMS = 4096
_MOST_HEAD = 65536
"""Bytes of one call's headers, packed."""


class FrameError(ValueError):
    """These bytes are not HTTP/2, or have more streams than anybody needs."""


@dataclass(frozen=True, slots=True)
class Announced:
    """A message that begins."""

    stream: int
    size_bytes: int
    is_compressed: bool


@dataclass(slots=True)
class _Message:
    """How far the current message of one stream is."""

    prefix: bytearray = field(default_factory=bytearray)
    missing: int = 0
    is_silent: bool = True
    """No message of it has begun."""


def goaway(last_stream: int) -> bytes:
    """The frame that says: no calls after this one are taken here (and none of them was)."""
    payload = last_stream.to_bytes(4, "big") + bytes(4)
    return len(payload).to_bytes(3, "big") + bytes([_GOAWAY, 0]) + bytes(4) + payload


class Sieve:
    """Takes frames of later calls out of what a client sends; it begins between two frames."""

    def __init__(self, last_stream: int) -> None:
        self._last = last_stream
        self._head = b""
        self._left = 0
        self._is_dropped = False

    def feed(self, data: bytes) -> bytes:
        """What may pass."""
        kept, at = bytearray(), 0
        while at < len(data):
            if not self._left:
                taken = _HEAD - len(self._head)
                self._head += data[at : at + taken]
                at += taken
                if len(self._head) < _HEAD:
                    break
                self._left = int.from_bytes(self._head[:3], "big")
                self._is_dropped = int.from_bytes(self._head[5:9], "big") & 0x7FFFFFFF > self._last
                if not self._is_dropped:
                    kept += self._head
                self._head = b""
                continue
            piece = data[at : at + self._left]
            if not self._is_dropped:
                kept += piece
            self._left -= len(piece)
            at += len(piece)
        return bytes(kept)


class Frames:
    """Follows one direction of a connection. `feed` takes bytes in pieces of any size."""

    def __init__(self, *, is_client: bool, most_streams: int = _MOST_STREAMS) -> None:
        self._most_streams = most_streams
        self._head_bytes = 0
        self._preface_left = len(PREFACE) if is_client else 0
        self._head = bytearray()
        self._left = 0
        """Bytes of the current payload that are still to come."""
        self._padding = -1
        """Of the current DATA frame: bytes at its end; -1: not read yet."""
        self._kind = self._flags = self._stream = 0
        self._messages: dict[int, _Message] = {}
        self.last_stream = 0
        """The highest number so far."""
        self.ended: list[int] = []
        """Streams whose last frame has passed since somebody cleared the list."""
        self.reset: list[int] = []
        """Streams that were reset, in the same order."""

    @property
    def has_begun(self) -> bool:
        """Whether any call was made."""
        return bool(self._messages)

    @property
    def is_between(self) -> bool:
        """Whether the last frame is complete and the next one has not begun."""
        return not self._left and not self._head and not self._preface_left

    def forget(self, stream: int) -> None:
        """A stream that the other side has ended."""
        self._messages.pop(stream, None)

    @property
    def open_streams(self) -> int:
        return len(self._messages)

    @property
    def silent_streams(self) -> int:
        """Calls that were opened and say nothing."""
        return sum(message.is_silent for message in self._messages.values())

    @property
    def largest_missing(self) -> int:
        """Bytes that the largest message on its way still lacks."""
        return max((message.missing for message in self._messages.values()), default=0)

    def is_inside_others(self, stream: int) -> bool:
        """Whether another stream has a message that is not complete."""
        return any(message.missing for number, message in self._messages.items() if number != stream)

    def feed(self, data: bytes) -> Iterator[Announced]:
        """The messages that begin in these bytes."""
        at = 0
        if self._preface_left:
            taken = min(self._preface_left, len(data))
            start = len(PREFACE) - self._preface_left
            if data[:taken] != PREFACE[start : start + taken]:
                raise FrameError("not HTTP/2")
            self._preface_left -= taken
            at = taken
        while at < len(data):
            if not self._left and len(self._head) < _HEAD:
                piece = data[at : at + _HEAD - len(self._head)]
                self._head += piece
                at += len(piece)
                if len(self._head) == _HEAD:
                    self._begin()
                continue
            piece_end = min(len(data), at + self._left)
            if self._kind == _DATA:
                yield from self._payload(data, at, piece_end)
            self._left -= piece_end - at
            at = piece_end
            if not self._left:
                self._finish()

    def _begin(self) -> None:
        self._left = int.from_bytes(self._head[:3], "big")
        self._kind, self._flags = self._head[3], self._head[4]
        self._stream = int.from_bytes(self._head[5:9], "big") & 0x7FFFFFFF
        self._padding = -1 if self._flags & _PADDED and self._kind == _DATA else 0
        if self._kind in {_HEADERS, _CONTINUATION}:
            self._head_bytes = self._left + (self._head_bytes if self._kind == _CONTINUATION else 0)
            if self._head_bytes > _MOST_HEAD:
                raise FrameError("the headers of a call are too large")
        if self._kind == _HEADERS and self._stream not in self._messages:
            if len(self._messages) >= self._most_streams:
                raise FrameError("too many streams")
            self._messages[self._stream] = _Message()
            self.last_stream = max(self.last_stream, self._stream)
        if not self._left:
            self._finish()

    def _finish(self) -> None:
        self._head.clear()
        if self._kind == _RST_STREAM:
            self.reset.append(self._stream)
        elif self._kind in {_DATA, _HEADERS} and self._flags & _END_STREAM:
            self.ended.append(self._stream)

    def _payload(self, data: bytes, at: int, end: int) -> Iterator[Announced]:
        """A piece of a DATA frame, without its padding."""
        left = self._left
        if self._padding < 0 and at < end:
            self._padding = data[at]
            at, left = at + 1, left - 1
        end = min(end, at + max(0, left - self._padding))
        message = self._messages.get(self._stream)
        if message is None:  # the stream is over; its last bytes are still on the way
            return
        while at < end:
            if message.missing:
                taken = min(message.missing, end - at)
                message.missing -= taken
                at += taken
                continue
            taken = min(_PREFIX - len(message.prefix), end - at)
            message.prefix += data[at : at + taken]
            at += taken
            if len(message.prefix) == _PREFIX:
                message.is_silent = False
                message.missing = int.from_bytes(message.prefix[1:], "big")
                yield Announced(self._stream, message.missing, bool(message.prefix[0]))
                message.prefix.clear()
