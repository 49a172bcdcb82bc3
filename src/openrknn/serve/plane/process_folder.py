"""A folder for the files of this process, which the next server removes if this one could not.

The folder has a lock file, locked for as long as the process lives: the kernel unlocks it however the process ends. A
folder is removed only if it is a directory of the same user, and its lock is free.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

__all__ = ["ProcessFolder", "remove_leftovers"]

_PREFIX = "openrknn-load-"
_LOCK = ".lock"
_OLD_SECONDS = 24 * 3600.0
"""A folder without a lock is of an older version, or being made."""


class ProcessFolder:
    """A new folder that others cannot look into."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove it. Closing twice is allowed."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_leftovers(folder: Path | None = None) -> list[Path]:
    """Remove what servers that were killed have left; the folders that went."""
    gone = []
    place = Path(tempfile.gettempdir()) if folder is None else folder
    with contextlib.suppress(OSError):
        for path in sorted(place.glob(f"{_PREFIX}*")):
            with contextlib.suppress(OSError):
                if _is_left(path):
                    shutil.rmtree(path)
                    gone.append(path)
    return gone


def _is_left(path: Path) -> bool:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return False
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return time.time() - found.st_mtime > _OLD_SECONDS
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
