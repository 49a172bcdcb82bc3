"""Reading below a root path: nothing raises, and nothing reads without an end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["below", "exists", "link_name", "listed", "number", "text", "words"]

_MOST_BYTES = 256 * 1024
"""Files of the kernel are small; whatever stands in their place may not be."""


def below(root: Path, path: str) -> Path:
    """An absolute path of the machine, below the root."""
    return root / path.lstrip("/")


def exists(root: Path, path: str) -> bool:
    """Whether something is there; what may not be looked at is not."""
    return os.path.exists(below(root, path))


def text(root: Path, path: str) -> str | None:
    """The text of a file; None where it is not there or may not be read."""
    try:
        descriptor = os.open(below(root, path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        parts = []
        left = _MOST_BYTES
        while left > 0 and (part := os.read(descriptor, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)


def words(root: Path, path: str) -> tuple[str, ...]:
    """The words of a file."""
    return tuple((text(root, path) or "").split())


def number(root: Path, path: str) -> int | None:
    """The whole number that a file holds."""
    try:
        return int((text(root, path) or "").strip())
    except ValueError:
        return None


def link_name(root: Path, path: str) -> str | None:
    """The last part of what a link points to; the target is not visited."""
    try:
        return os.path.basename(os.readlink(below(root, path)).rstrip("/"))
    except OSError:
        return None


def listed(root: Path, path: str) -> Iterator[str]:
    """The names in a folder, in the order that people expect: 2 before 10."""
    try:
        names = os.listdir(below(root, path))
    except OSError:
        return iter(())
    return iter(sorted(names, key=lambda name: (len(name.rstrip("0123456789")), _split(name))))


def _split(name: str) -> tuple[str, int]:
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    return stem, int(digits) if digits and len(digits) < 20 else 0
