"""Models into files, which are there completely or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile

from openrknn.container.model import Model
from openrknn.container.writer import encode

__all__ = ["save", "write_atomically"]


def save(model: Model, path: str | os.PathLike[str], *, drop_unknown: bool = False) -> None:
    """Write a model that was loaded, edited or compiled into a `.rknn` file.

    A file that exists is replaced; if anything goes wrong it stays as it was. `UnsupportedError` for models that cannot
    be written: those of toolkits before 1.5.2, and, unless `drop_unknown`, those with parts that are not understood.
    """
    if not isinstance(model, Model):
        raise TypeError(f"save takes a Model, as load and compile return it, not {type(model).__name__}")
    write_atomically(path, encode(model, drop_unknown=drop_unknown))


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write beside `path`, then put it in its place: a reader sees the old file or the new one, never a half.

    An existing file keeps its permissions; links are followed, so that what they point to is replaced.
    """
    target = os.path.realpath(path)
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


def _mode(target: str) -> int:
    """The permissions of the file that is replaced, or those that a new file would have."""
    try:
        return os.stat(target).st_mode & 0o777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
