"""Events on the wire, both ways. What comes in may be hostile: every length has a bound before it is waited for."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from openrknn.serve.errors import BadRequestError, ServeError

__all__ = ["Decoder", "Event", "Send", "encode", "error_event"]

_MOST_LINE = 64 * 1024
_MOST_DATA = 1024 * 1024
_MOST_PAYLOAD = 1024 * 1024
_MOST_TYPE = 100
_VERSION = "1.5.0"
"""Of the protocol, as far as we speak it."""


@dataclass(frozen=True, slots=True)
class Event:
    """A type, words, and perhaps bytes."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""


Send = Callable[[Event], Awaitable[None]]


def error_event(error: ServeError) -> Event:
    """What a client hears instead of an answer."""
    return Event("error", {"text": str(error), "code": error.code})


def encode(event: Event) -> bytes:
    """The bytes of one event."""
    head: dict[str, Any] = {"type": event.type, "version": _VERSION}
    data = json.dumps(event.data, ensure_ascii=False).encode() if event.data else b""
    if data:
        head["data_length"] = len(data)
    if event.payload:
        head["payload_length"] = len(event.payload)
    return json.dumps(head).encode() + b"\n" + data + event.payload


class Decoder:
    """Bytes in, events out. BadRequestError: this is not the protocol, and nothing that follows can be understood."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._head: tuple[str, dict[str, Any], int, int] | None = None

    def feed(self, data: bytes) -> list[Event]:
        """The events that are complete by now."""
        self._bytes += data
        found = []
        while (event := self._next()) is not None:
            found.append(event)
        return found

    def _next(self) -> Event | None:
        if self._head is None:
            end = self._bytes.find(b"\n", 0, _MOST_LINE)
            if end < 0:
                if len(self._bytes) >= _MOST_LINE:
                    raise BadRequestError(f"a line has more than {_MOST_LINE} bytes")
                return None
            self._head = _read_head(bytes(self._bytes[:end]))
            del self._bytes[: end + 1]
        kind, data, data_length, payload_length = self._head
        if len(self._bytes) < data_length + payload_length:
            return None
        if data_length:
            data = {**data, **_object(bytes(self._bytes[:data_length]), "the data of an event")}
        payload = bytes(self._bytes[data_length : data_length + payload_length])
        del self._bytes[: data_length + payload_length]
        self._head = None
        return Event(kind, data, payload)


def _read_head(line: bytes) -> tuple[str, dict[str, Any], int, int]:
    words = _object(line, "a line")
    kind, data = words.get("type"), words.get("data")
    if not isinstance(kind, str) or len(kind) > _MOST_TYPE:
        raise BadRequestError("an event has no type")
    if data is not None and not isinstance(data, dict):
        raise BadRequestError("the data of an event is not an object")
    lengths = []
    for name, most in (("data_length", _MOST_DATA), ("payload_length", _MOST_PAYLOAD)):
        length = words.get(name)
        length = 0 if length is None else length
        if type(length) is not int or not 0 <= length <= most:
            raise BadRequestError(f"{name} is a number from 0 to {most}")
        lengths.append(length)
    return kind, data or {}, lengths[0], lengths[1]


def _object(text: bytes, what: str) -> dict[str, Any]:
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequestError(f"{what} is not JSON") from None
    if not isinstance(words, dict):
        raise BadRequestError(f"{what} is not an object of JSON")
    return words
