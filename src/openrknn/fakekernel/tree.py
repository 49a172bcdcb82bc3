"""The emulated files as a tree of real ones, and the list of paths for the preload library.

    FOLDER/socket    where the server listens
    FOLDER/paths     which paths are emulated, which files are nodes (native/preload/paths.c reads it)
    FOLDER/root/...  the files; a socket file stands where the server has to do the opening
    FOLDER/lib/      the vendor's library under the name that programs ask for
    FOLDER/lock      held while the device runs

Only these are ever made or removed. A folder that holds anything else is refused, unless a device that was killed left
these five behind; a folder that was there before stays.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from openrknn.fakekernel.c_header import version
from openrknn.fakekernel.entries import Device, Entry, Link, LiveText, Text
from openrknn.fakekernel.file import Node

__all__ = ["Tree", "remove_stale"]

PREFIX = "openrknn-device-"
_LOCK = "lock"
_MARK = b"openrknn device\n"
"""In the lock: the folder is an emulated device's."""
_OURS = ("paths", "socket", "root", "lib", _LOCK)
_LONGEST_SOCKET = 100
"""Paths of sockets have at most 107 bytes."""


class Tree:
    """A folder that lives as long as the device; a lock in it tells the next device whether it is still in use."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_base())) if folder is None else folder
        self._is_new = folder is None or not folder.exists()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_folder(self.folder)
        self.root = self.folder / "root"
        self._lock = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(self._lock, _MARK, 0)
        except BlockingIOError:
            os.close(self._lock)
            raise FileExistsError(f"{self.folder}: another device runs there") from None
        except OSError:
            os.close(self._lock)
            raise
        _remove_ours(self.folder, but=_LOCK)

    @property
    def socket_path(self) -> Path:
        return self.folder / "socket"

    def build(self, entries: Iterable[Entry], hidden: Sequence[str], library: str | None) -> list[tuple[Node, Entry]]:
        """Make all files; the nodes in the order of their numbers."""
        nodes: list[tuple[Node, Entry]] = []
        lines = [f"version {version():08x}", f"root {self.root}", *(f"prefix {path}" for path in hidden)]
        for entry in entries:
            place = self.root / entry.path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(entry, Text):
                place.write_bytes(entry.text.encode())
            elif isinstance(entry, Link):
                place.symlink_to(entry.target) if not place.is_symlink() else None
            else:
                node = _node(len(nodes), entry)
                os.mknod(place, stat.S_IFSOCK | stat.S_IMODE(node.mode))
                nodes.append((node, entry))
                numbers = f"{place.lstat().st_ino} {node.mode:o} {node.major} {node.minor}"
                lines.append(f"node {numbers} {node.path}")
        for name in ("sys/bus/platform", "proc", "sys/class", "lib"):  # links lead here
            (self.root / name).mkdir(parents=True, exist_ok=True)
        if library:
            (self.folder / "lib").mkdir(exist_ok=True)
            (self.folder / "lib" / "librknnrt.so").symlink_to(library)
        (self.folder / "paths").write_text("\n".join(lines) + "\n")
        return nodes

    def listen(self) -> socket.socket:
        """The socket that preload libraries connect to."""
        if len(os.fsencode(self.socket_path)) > _LONGEST_SOCKET:
            raise OSError(errno.ENAMETOOLONG, "too long for the path of a socket; use a shorter one", str(self.folder))
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(str(self.socket_path))
            listener.listen(128)
        except OSError:
            listener.close()
            raise
        return listener

    def remove(self) -> None:
        """Leave nothing behind."""
        _remove_ours(self.folder)
        if self._is_new:
            with contextlib.suppress(OSError):  # somebody put something there meanwhile
                self.folder.rmdir()
        os.close(self._lock)


def _check_folder(folder: Path) -> None:
    """Empty, or what a device left behind."""
    names = {entry.name for entry in folder.iterdir()}
    if not names or (names <= set(_OURS) and _has_mark(folder / _LOCK)):
        return
    raise FileExistsError(f"{folder}: the folder holds other files; name a new or an empty one")


def _has_mark(lock: Path) -> bool:
    return not lock.is_symlink() and lock.is_file() and lock.read_bytes()[: len(_MARK)] == _MARK


def _remove_ours(folder: Path, but: str = "") -> None:
    for place in (folder / name for name in _OURS if name != but):
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)


def _node(number: int, entry: LiveText | Device) -> Node:
    if isinstance(entry, LiveText):
        return Node(number, entry.path, stat.S_IFREG | (0o444 if entry.write is None else 0o644))
    return Node(number, entry.path, entry.mode, entry.major, entry.minor, entry.driver, entry.is_render)


def _base() -> str:
    """The system's folder for temporary files."""
    base = tempfile.gettempdir()
    if len(base) + len(PREFIX) + len("12345678/socket") > _LONGEST_SOCKET:
        raise OSError(errno.ENAMETOOLONG, "too long for the path of a socket; set TMPDIR to a shorter one", base)
    return base


def remove_stale() -> None:
    """Clean up after devices that were killed: their lock is free."""
    for folder in Path(_base()).glob(f"{PREFIX}*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # just being made, or somebody else's
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            with contextlib.suppress(OSError):
                _remove_ours(folder)
                folder.rmdir()
        finally:
            os.close(lock)
