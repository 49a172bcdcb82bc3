"""The file system that a guest starts with: an archive of the kind "newc", which the kernel unpacks."""

from __future__ import annotations

import stat

__all__ = ["Archive"]

_MAGIC = "070701"
_TRAILER = "TRAILER!!!"


class Archive:
    """Files, folders and links, in the order in which they were added."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._folders: set[str] = set()
        self._count = 0

    def file(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """A file; the folders above it are made."""
        self._parents(path)
        self._entry(path, stat.S_IFREG | mode, data)

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        self._parents(path)
        self._entry(path, stat.S_IFLNK | 0o777, target.encode())

    def folder(self, path: str) -> None:
        """An empty folder."""
        self._parents(f"{path}/x")

    def device(self, path: str, major: int, minor: int) -> None:
        """A character device."""
        self._parents(path)
        self._entry(path, stat.S_IFCHR | 0o600, b"", major, minor)

    def to_bytes(self) -> bytes:
        """The archive with its end."""
        done = Archive()
        done._data, done._count = bytearray(self._data), self._count
        done._entry(_TRAILER, 0, b"")
        return bytes(done._data) + bytes(-len(done._data) % 512)

    def _parents(self, path: str) -> None:
        parts = path.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            folder = "/".join(parts[:count])
            if folder not in self._folders:
                self._folders.add(folder)
                self._entry(folder, stat.S_IFDIR | 0o755, b"")

    def _entry(self, path: str, mode: int, data: bytes, major: int = 0, minor: int = 0) -> None:
        self._count += 1
        name = path.encode() + b"\0"
        numbers = (self._count, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name), 0)
        header = _MAGIC.encode() + b"".join(b"%08X" % number for number in numbers)
        self._data += header + name + bytes(-(len(header) + len(name)) % 4)
        self._data += data + bytes(-len(data) % 4)
