"""Files that are there completely or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile

from openrknn.cli.files import os_problem
from openrknn.cli.output import CommandError

__all__ = ["save_atomically"]


def save_atomically(path: str, data: bytes) -> None:
    """Write beside `path`, then put it in its place: a reader sees the old file or the new one, never a half.

    An existing file keeps its rights; links are followed, so that what they point to is replaced.
    """
    target = os.path.realpath(path)
    try:
        mode = _mode(target)
        handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(target)[:100]}.", dir=os.path.dirname(target))
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise CommandError(os_problem(error, path)) from error


def _mode(target: str) -> int:
    """The rights of the file that is replaced, or those that a new file would have."""
    try:
        return os.stat(target).st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
