"""The kernel's log: from the kernel itself on this machine, from the files of /var/log below another root."""

from __future__ import annotations

import os
from pathlib import Path

from openrknn.monitor import files

__all__ = ["NewLines", "kernel_log"]

_FILES = ("/var/log/dmesg", "/var/log/kern.log")
_RECORD_BYTES = 16384
_MOST_RECORDS = 100_000
_MOST_NEW_BYTES = 256 * 1024
"""Of what a file has grown by; of more than that the newest."""


def kernel_log(root: Path) -> tuple[str, ...] | None:
    """Its lines, the oldest first; None without permission to read it."""
    if root == Path("/") and (lines := _from_kernel()) is not None:
        return lines
    texts = [text for path in _FILES if (text := files.text(root, path)) is not None]
    return tuple(line for text in texts for line in text.splitlines()) if texts else None


class NewLines:
    """What the log gets from now on; a log of any size costs only what is new."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._kernel = _open_kernel() if root == Path("/") else None
        if self._kernel is not None:
            os.lseek(self._kernel, 0, os.SEEK_END)
        self._seen: dict[str, tuple[int, int]] = {path: _place(root, path) for path in _FILES}

    def read(self) -> list[str]:
        """The lines since the last call."""
        if self._kernel is not None:
            return _records(self._kernel)
        return [line for path in _FILES for line in self._new(path)]

    def close(self) -> None:
        """Give the kernel's log back."""
        if self._kernel is not None:
            os.close(self._kernel)
            self._kernel = None

    def _new(self, path: str) -> list[str]:
        inode, size = _place(self._root, path)
        old_inode, start = self._seen[path]
        if inode != old_inode or size < start:  # rotated, or made again
            start = 0
        self._seen[path] = inode, size
        start = max(start, size - _MOST_NEW_BYTES)
        if size <= start:
            return []
        try:
            with open(files.below(self._root, path), "rb") as stream:
                stream.seek(start)
                return stream.read(size - start).decode("utf-8", "replace").splitlines()
        except OSError:
            return []


def _place(root: Path, path: str) -> tuple[int, int]:
    try:
        status = os.stat(files.below(root, path))
    except OSError:
        return 0, 0
    return status.st_ino, status.st_size


def _open_kernel() -> int | None:
    try:
        return os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


def _from_kernel() -> tuple[str, ...] | None:
    descriptor = _open_kernel()
    if descriptor is None:
        return None
    try:
        return tuple(_records(descriptor)) or None
    finally:
        os.close(descriptor)


def _records(descriptor: int) -> list[str]:
    """/dev/kmsg: one record per read, without waiting for the next."""
    lines: list[str] = []
    while len(lines) < _MOST_RECORDS:
        try:
            record = os.read(descriptor, _RECORD_BYTES).decode("utf-8", "replace")
        except BrokenPipeError:  # overwritten while we read; the next read goes on
            continue
        except OSError:  # no more, or not allowed
            break
        if not record:
            break
        lines.append(record.partition(";")[2].partition("\n")[0])
    return lines
