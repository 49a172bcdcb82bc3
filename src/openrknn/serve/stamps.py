"""What tells that a file is another one than before, without reading it."""

from __future__ import annotations

import os

__all__ = ["FileStamp", "stamp_of"]

FileStamp = tuple[int, int, int]
"""Inode, size and time."""


def stamp_of(path: str | os.PathLike[str] | None) -> FileStamp | None:
    """None: there is no such file, or it is being replaced just now."""
    if path is None:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
