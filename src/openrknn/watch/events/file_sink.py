"""Events as lines of JSON in a file. A line that is there is not written again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import BinaryIO

from openrknn.watch.errors import SinkError
from openrknn.watch.events.spool import Event

__all__ = ["FileEvents"]

_TAIL = 1 << 20


class FileEvents:
    """Appends; a file that was moved away (logrotate) is created again."""

    def __init__(self, path: Path, snapshots: Path | None = None) -> None:
        self.name = f"file:{path}"
        self._path, self._snapshots = path, snapshots
        self._last = ""
        self._file: BinaryIO | None = None
        self._place: tuple[int, int] | None = None

    def deliver(self, event: Event, snapshot: bytes | None) -> None:
        """One more line, on disk."""
        try:
            file = self._open()
            if _is_at_or_before(event.id, self._last):
                return  # it was written, and the program ended before it could say so
            if self._snapshots is not None and snapshot is not None:
                self._snapshots.mkdir(parents=True, exist_ok=True)
                (self._snapshots / f"{event.id}.jpg").write_bytes(snapshot)
            file.write(event.to_json() + b"\n")
            file.flush()
            os.fsync(file.fileno())
            self._last = event.id
        except OSError as error:
            self.close()
            raise SinkError(f"{self._path}: {error.strerror or error}") from None

    def _open(self) -> BinaryIO:
        try:
            status = os.stat(self._path)
            place = (status.st_dev, status.st_ino)
        except FileNotFoundError:
            place = None
        if self._file is not None and place == self._place:
            return self._file
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a+b")
        self._last = self._repair(file) or self._last
        status = os.fstat(file.fileno())
        self._file, self._place = file, (status.st_dev, status.st_ino)
        return file

    @staticmethod
    def _repair(file: BinaryIO) -> str:
        """The id in the last whole line; half a line, after a loss of power, is cut off."""
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL, 0))
        tail = file.read()
        if tail and not tail.endswith(b"\n"):
            whole = tail.rfind(b"\n") + 1
            file.truncate(size - len(tail) + whole)
            tail = tail[:whole]
        last = tail.rstrip(b"\n").rpartition(b"\n")[2]
        file.seek(0, os.SEEK_END)
        try:
            found = json.loads(last)
            return str(found["id"]) if isinstance(found, dict) else ""
        except (ValueError, KeyError):
            return ""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = self._place = None


def _is_at_or_before(one: str, other: str) -> bool:
    """Of the same spool, and not later."""
    return one.partition("-")[0] == other.partition("-")[0] and one <= other
