"""What kinds of files there are in the emulated tree."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass

from openrknn.fakekernel.file import Driver

__all__ = ["Device", "Entry", "Link", "LiveText", "Text"]


@dataclass(frozen=True)
class Text:
    """A file that never changes."""

    path: str
    text: str


@dataclass(frozen=True)
class LiveText:
    """A file whose text is made when it is opened; `write` gets what a program writes into it."""

    path: str
    read: Callable[[], str]
    write: Callable[[str], None] | None = None


@dataclass(frozen=True)
class Link:
    """A symbolic link; relative, so that it stays inside the tree."""

    path: str
    target: str


@dataclass(frozen=True)
class Device:
    """A character device."""

    path: str
    driver: Driver
    major: int
    minor: int
    mode: int = stat.S_IFCHR | 0o660
    is_render: bool = False


Entry = Text | LiveText | Link | Device
