"""Files that are written completely or not at all, and never over the input of the command that writes.

write_atomically    bytes or text into a file
append              at the end of a file, all of it or nothing
new_file            the same as write_atomically for content that comes in pieces
protected           these files are inputs: nothing in this module replaces them meanwhile
check_regular       refuse what is no regular file: a device node, a FIFO, a socket, a folder
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from openrknn.errors import OutputError

_LONGEST_PREFIX = 100
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISCHR, "a device node"),
    (stat.S_ISBLK, "a device node"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
)
_inputs: list[tuple[int, int]] = []


@contextlib.contextmanager
def protected(inputs: Iterable[str | os.PathLike[str]]) -> Iterator[None]:
    """Inputs of a command: for all threads, files are known by device and inode, so by every name that they have."""
    before = len(_inputs)
    _inputs.extend(filter(None, map(_identity, inputs)))
    try:
        yield
    finally:
        del _inputs[before:]


def is_input(path: str | os.PathLike[str]) -> bool:
    """Whether this is a protected file, or is in a protected folder."""
    folder = os.path.dirname(os.path.realpath(path))
    return _identity(path) in _inputs or _identity(folder) in _inputs


def _identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def check_regular(path: str | os.PathLike[str]) -> None:
    """`OutputError` unless `path` is missing or a regular file; links are followed."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = next((words for test, words in _KINDS if test(mode)), "not a regular file")
        raise OutputError(f"{os.fspath(path)}: this is {what}; give a file name")


def write_atomically(
    path: str | os.PathLike[str],
    data: bytes | str,
    *,
    mode: int | None = None,
    half: str | None = None,
    replaces_input: bool = False,
) -> None:
    """Write beside `path`, then rename: a reader sees the old file or the new one, never a part of it.

    Permissions are `mode`, else those of the file that is replaced, else those of a new file. Links are followed: the
    file that they lead to is replaced. `half` is the prefix of the temporary file, for programs that remove what
    killed processes left; it should begin with a dot.
    """
    with new_file(path, mode=mode, half=half, replaces_input=replaces_input) as file:
        file.write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)


@contextlib.contextmanager
def new_file(
    path: str | os.PathLike[str], *, mode: int | None = None, half: str | None = None, replaces_input: bool = False
) -> Iterator[BinaryIO]:
    """A stream whose content is in `path` once the block ends; after an exception `path` is as it was."""
    target = os.path.realpath(path)
    check_regular(target)
    if not replaces_input and _identity(target) in _inputs:
        raise OutputError(f"{os.fspath(path)}: this is an input of the command; choose another name")
    old = os.stat(target) if os.path.exists(target) else None
    name = os.fsdecode(os.fsencode(os.path.basename(target))[:_LONGEST_PREFIX])  # bytes count, not characters
    handle, temporary = tempfile.mkstemp(prefix=f".{name}." if half is None else half, dir=os.path.dirname(target))
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode if mode is not None else _mode(old))
        if old is not None and os.geteuid() == 0:  # root replaces the file of a user: it stays theirs
            with contextlib.suppress(OSError):
                os.chown(temporary, old.st_uid, old.st_gid)
        check_regular(target)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def append(path: str | os.PathLike[str], data: bytes) -> None:
    """Add to the end of a file, or to a new one; what cannot be added completely is not added."""
    check_regular(path)
    with open(path, "ab", buffering=0) as file:  # a buffer would be written again when the file is closed
        size = os.fstat(file.fileno()).st_size
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(file.fileno(), size)
            raise


def _mode(old: os.stat_result | None) -> int:
    """The permissions of the file that is replaced, or those that a new file would have."""
    if old is not None:
        return old.st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
