"""`Store`: the responses that clients may ask for again, or go on from. In memory, bounded, the oldest go first."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from openrknn.serve.errors import NotFoundError
from openrknn.serve.rest.responses.items import Item

__all__ = ["Store", "Stored"]

MOST_RESPONSES = 1000
MOST_BYTES = 32 << 20
"""Of JSON. A conversation counts once for each of its responses: each has all items before it."""


@dataclass(slots=True)
class Stored:
    """One response."""

    words: dict[str, Any]
    input: tuple[Item, ...]
    """All items that it answers, with those of the responses before it."""
    task: asyncio.Task[None] | None = None
    """Of a response in the background that is not complete."""
    size: int = field(default=0)

    @property
    def items(self) -> tuple[Item, ...]:
        """What a next response goes on from."""
        return (*self.input, *self.words["output"])


class Store:
    """By id. Used by the server's loop only."""

    def __init__(self, most_responses: int = MOST_RESPONSES, most_bytes: int = MOST_BYTES) -> None:
        self._most_responses, self._most_bytes = most_responses, most_bytes
        self._kept: dict[str, Stored] = {}
        self._bytes = 0

    def keep(self, one: Stored) -> None:
        """Put it in, or again with what it has become."""
        identity = one.words["id"]
        self._remove(identity)
        one.size = len(json.dumps(one.items)) + len(json.dumps(one.words))
        self._kept[identity] = one
        self._bytes += one.size
        for other in list(self._kept.values()):
            if len(self._kept) <= self._most_responses and self._bytes <= self._most_bytes:
                break
            if other.task is None and other is not one:
                self._remove(other.words["id"])

    def find(self, identity: object) -> Stored:
        """404 where it is not (any more)."""
        found = self._kept.get(identity) if isinstance(identity, str) else None
        if found is None:
            raise NotFoundError(
                f"there is no response {identity!r:.80}: it was not stored, was deleted, or made room for newer ones"
            ).about("response_id", "response_not_found")
        return found

    def item(self, identity: str) -> Item | None:
        """An item of any response."""
        for one in reversed(self._kept.values()):
            for item in reversed(one.items):
                if item["id"] == identity:
                    return item
        return None

    def is_kept(self, identity: str) -> bool:
        """Whether it is here."""
        return identity in self._kept

    def delete(self, identity: str) -> Stored:
        """Take it out; 404 where it is not."""
        found = self.find(identity)
        self._remove(identity)
        return found

    def _remove(self, identity: str) -> None:
        found = self._kept.pop(identity, None)
        if found is not None:
            self._bytes -= found.size
