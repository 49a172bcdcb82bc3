"""Files in the user's cache: checksummed, bounded in size, the oldest are removed first.

    cache = FileCache("programs", most_bytes=1 << 30)
    cache.write(key, {"operations": 7}, {"weights": array})
    entry = cache.read(key)                 # None, or an Entry whose sections are views of the file in memory
    entry.sections["weights"]

A file is trusted because of where it is, and read with care all the same. Where: only the user can write the folder
(`folders.cache_folder`), and a file that belongs to somebody else or that others can write is not read. With care:
checksums of everything, the key inside, and sections that lie within the file; what fails is removed and made again.
Checksums are against disks and crashes: SHA-256, and CRC-32 (8 times as fast) of sections from 1 MiB on.
Files are written beside their place and renamed, and never changed afterwards: who has one open keeps what it saw, and
processes that read the same file share its memory. Nothing here raises for a folder that is full, missing or read-only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import mmap
import os
import stat
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from openrknn.folders import cache_folder
from openrknn.records import dataclass

_LOG = logging.getLogger(__name__)
ALIGNMENT = 64
"""Of every section: a cache line."""
_MAGIC = b"ORKNKEP2"
_DIGEST = slice(8, 40)
_HEAD = slice(40, 48)
_PROLOGUE = 48
_LARGE = 1 << 20
"""Sections of so many bytes have a CRC-32."""
_SUFFIX, _HALF = ".kept", ".half-"
_ABANDONED_SECONDS = 3600
"""After this long, half a file is of a process that ended in between."""
_PART_OF_CACHE, _PART_OF_DISK = 4, 10
"""A file takes a quarter of the cache at the most, and never what would leave the disk less than a tenth free."""
_ENOUGH_FREE = 2 << 30
"""On large disks this is enough; a tenth of a quarter of a terabyte is more than anybody misses."""
_TOUCH_SECONDS = 60


class _DamagedError(Exception):
    """What a file says of itself is not so."""


@dataclass(frozen=True)
class Entry:
    """What a file holds. The sections stay valid for as long as somebody has them."""

    meta: dict[str, Any]
    sections: dict[str, memoryview]


@dataclass(frozen=True)
class Stored:
    """A file of the cache, for lists."""

    path: Path
    size: int
    used: float
    """When it was last of use, in seconds since 1970."""


class FileCache:
    """Files of one kind, by key (hexadecimal digits)."""

    is_on: ClassVar[bool] = True
    """False: nothing is read or written. For tests, which would see what others left."""

    def __init__(self, name: str, most_bytes: int) -> None:
        self.name, self.most_bytes = name, most_bytes

    @property
    def folder(self) -> Path | None:
        """Where it is, if it is there."""
        return cache_folder(self.name, make=False)

    def read(self, key: str) -> Entry | None:
        """What was written under this key; None if nothing was, or if it is not to be trusted."""
        folder = self.folder
        if folder is None or not self.is_on:
            return None
        path = folder / f"{key}{_SUFFIX}"
        try:
            view = _opened(path)
        except (OSError, ValueError):
            return None
        if view is None:
            return None
        try:
            return _parsed(view, key)
        except (_DamagedError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            _LOG.info("%s is damaged (%s): it is made again", path, error)
            with contextlib.suppress(OSError):
                path.unlink()
            return None

    def write(self, key: str, meta: Mapping[str, object], sections: Mapping[str, Any]) -> bool:
        """Keep arrays or bytes under a key; whether that was possible. Readers see all of it or nothing.

        A section may be a list of arrays, which follow one another without a gap.
        """
        folder = cache_folder(self.name) if self.is_on else None
        if folder is None:
            return False
        try:
            parts = _arranged(key, meta, sections)
            size = sum(len(part) for part in parts)
            if size > self.most_bytes // _PART_OF_CACHE or not _has_room(folder, size):
                return False
            import tempfile

            handle, half = tempfile.mkstemp(prefix=_HALF, dir=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    for part in parts:
                        file.write(part)
                os.replace(half, folder / f"{key}{_SUFFIX}")
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(half)
                raise
            self._trim(folder)
        except OSError as error:
            _LOG.info("%s cannot be written (%s): nothing is kept", folder, error.strerror)
            return False
        return True

    def remove(self, key: str) -> None:
        """Of this key; nothing happens where there is none."""
        folder = self.folder
        if folder is not None and self.is_on:
            with contextlib.suppress(OSError):
                (folder / f"{key}{_SUFFIX}").unlink()

    def stored(self) -> list[Stored]:
        """What is there, what was used last first."""
        folder = self.folder
        return [] if folder is None else [one for one in _files(folder) if one.path.suffix == _SUFFIX]

    def clear(self) -> int:
        """Remove everything; how many bytes that were."""
        folder, freed = self.folder, 0
        for one in [] if folder is None else _files(folder):
            with contextlib.suppress(OSError):
                one.path.unlink()
                freed += one.size
        return freed

    def _trim(self, folder: Path) -> None:
        total, now = 0, time.time()
        if not self._is_due(folder, now):
            return
        for one in _files(folder):
            is_half = one.path.name.startswith(_HALF)
            total += one.size
            if total > self.most_bytes if not is_half else now - one.used > _ABANDONED_SECONDS:
                with contextlib.suppress(OSError):
                    one.path.unlink()

    def _is_due(self, folder: Path, now: float) -> bool:
        """Whether anything has to go. Sizes are cheap; a sorted list of thousands of paths after each write is not."""
        total, is_abandoned = 0, False
        for entry, about in _entries(folder):
            total += about.st_size
            is_half = entry.name.startswith(_HALF)
            is_abandoned = is_abandoned or (is_half and now - about.st_mtime > _ABANDONED_SECONDS)
        return total > self.most_bytes or is_abandoned


def code_state(root: str, names: Iterable[str], others: Iterable[str] = ()) -> str:
    """Of the modules and packages with these names in a folder, for keys: a checkout changes without a new version."""
    files, folders = [], [os.path.join(root, name) for name in names]
    while folders:
        path = folders.pop()
        if path.endswith(".py"):
            files.append(path)
            continue
        with os.scandir(path) as entries:
            folders += [entry.path for entry in entries if entry.name.endswith(".py")
                        or (entry.is_dir() and entry.name != "__pycache__")]  # fmt: skip
    state = hashlib.sha256()
    for path in (*sorted(files), *others):
        about = os.stat(path)
        state.update(f"{path} {about.st_size} {about.st_mtime_ns}\n".encode())
    return state.hexdigest()


def _entries(folder: Path) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX) or entry.name.startswith(_HALF):
                try:
                    about = entry.stat(follow_symlinks=False)
                except OSError:  # another process removed it
                    continue
                yield entry, about


def _files(folder: Path) -> list[Stored]:
    found = [Stored(Path(entry.path), about.st_size, about.st_mtime) for entry, about in _entries(folder)]
    return sorted(found, key=lambda one: (-one.used, one.path.name))


def _has_room(folder: Path, size: int) -> bool:
    disk = os.statvfs(folder)
    least = min(disk.f_blocks * disk.f_frsize // _PART_OF_DISK, _ENOUGH_FREE)
    return disk.f_bavail * disk.f_frsize - size > least


def _opened(path: Path) -> memoryview | None:
    """The bytes of a file that is ours alone; others read the same memory."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
            return None
        if time.time() - about.st_mtime > _TOUCH_SECONDS:
            with contextlib.suppress(OSError):
                os.utime(handle)  # for `_trim`
        return memoryview(mmap.mmap(handle, 0, access=mmap.ACCESS_READ))
    finally:
        os.close(handle)


def _arranged(key: str, meta: Mapping[str, object], sections: Mapping[str, Any]) -> list[memoryview | bytes]:
    views = {name: [memoryview(piece).cast("B") for piece in (section if isinstance(section, list) else [section])
                    if len(piece)] for name, section in sections.items()}  # fmt: skip
    table: dict[str, list[Any]] = {}
    for name, pieces in views.items():
        size = sum(map(len, pieces))
        pieces.append(memoryview(bytes(-size % ALIGNMENT)))
        table[name] = [0, size, _sum(pieces)]
    head = b""
    while True:  # until the head, which says where everything is, has the length that was reckoned with
        first = at = -(-(_PROLOGUE + len(head)) // ALIGNMENT) * ALIGNMENT
        for entry in table.values():
            entry[0] = at
            at += -(-entry[1] // ALIGNMENT) * ALIGNMENT
        said = json.dumps({"key": key, "sections": table, "meta": meta, "size": at}).encode()
        if len(said) <= len(head):
            break
        head = bytes(len(said) + ALIGNMENT)
    said = said.ljust(first - _PROLOGUE)
    length = len(said).to_bytes(8, "little")
    digest = hashlib.sha256(length + said).digest()
    return [_MAGIC + digest + length, said, *(piece for pieces in views.values() for piece in pieces)]


def _sum(pieces: Sequence[memoryview]) -> str:
    """The checksum of what follows one another."""
    if sum(map(len, pieces)) >= _LARGE:
        found = 0
        for piece in pieces:
            found = zlib.crc32(piece, found)
        return f"{found:08x}"
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _parsed(view: memoryview, key: str) -> Entry:
    if len(view) < _PROLOGUE or view[:8] != _MAGIC:
        raise _DamagedError("another kind of file")
    length = int.from_bytes(view[_HEAD], "little")
    if length > len(view) - _PROLOGUE:
        raise _DamagedError("a head that is longer than the file")
    if hashlib.sha256(view[_HEAD.start : _PROLOGUE + length]).digest() != view[_DIGEST]:
        raise _DamagedError("another checksum")
    head = json.loads(bytes(view[_PROLOGUE : _PROLOGUE + length]))
    if head["key"] != key or head["size"] != len(view):
        raise _DamagedError("another key or size")
    sections = {}
    for name, (start, size, checksum) in head["sections"].items():
        if not (size >= 0 and _PROLOGUE + length <= start <= len(view) - size) or start % ALIGNMENT:
            raise _DamagedError(f"a section {name!r} that is not within the file")
        sections[name] = view[start : start + size]
        if _sum([view[start : -(-(start + size) // ALIGNMENT) * ALIGNMENT]]) != checksum:
            raise _DamagedError(f"another checksum of the section {name!r}")
    if not isinstance(head["meta"], dict):
        raise _DamagedError("no meta")
    return Entry(head["meta"], sections)
