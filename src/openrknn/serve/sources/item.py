"""What a source says that it has, and what was got."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Protocol

__all__ = ["Got", "Item", "Remote"]


@dataclass(frozen=True, slots=True)
class Item:
    """One file of a source."""

    path: str
    """In the mirror; checked by `relative_path`."""
    tag: str = ""
    """ETag; another one means other bytes. Empty: ask."""
    size: int | None = None
    sha256: str = ""
    """Promised by the address or a list; empty: not promised."""
    is_optional: bool = False
    """It need not be there."""


@dataclass(frozen=True, slots=True)
class Got:
    """One file that was written."""

    tag: str
    size: int
    sha256: str
    """Of what came."""
    promised: str = ""
    """What the server said that it would be; empty: nothing."""


class Remote(Protocol):
    """A source that can be mirrored."""

    def items(self) -> list[Item]:
        """All that it has now; it raises where it cannot say."""

    def fetch(self, item: Item, tag: str, file: BinaryIO) -> Got | None:
        """The bytes of a file; None: they are still those of `tag`."""
