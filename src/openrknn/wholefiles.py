"""Files that are there completely or not at all, whoever is killed and whenever the power fails."""

from __future__ import annotations

import contextlib
import os
import tempfile

__all__ = ["write_atomically"]


def write_atomically(
    path: str | os.PathLike[str], data: bytes | str, *, mode: int | None = None, half: str | None = None
) -> None:
    """Write beside `path`, then put it in its place: a reader sees the old file or the new one, never a half.

    Permissions are `mode`, else those of the file that is replaced, else those of a new file; links are followed, so
    that what they point to is replaced. `half` is how the name of the half file begins, for who sweeps up after kills;
    it should begin with a dot.
    """
    target = os.path.realpath(path)
    permissions = _mode(target) if mode is None else mode
    prefix = f".{os.path.basename(target)[:100]}." if half is None else half
    handle, temporary = tempfile.mkstemp(prefix=prefix, dir=os.path.dirname(target))
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, permissions)
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
