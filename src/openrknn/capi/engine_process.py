"""The engine of this user that runs, found by its socket: who it is, for whom it works, what it takes, and its end.

Nothing is asked of it: the kernel's lists say which process listens at the socket and which processes it started.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from openrknn.capi.wire import SOCKET_VARIABLE, socket_name
from openrknn.errors import RknnError

_PROC = Path("/proc")
_LISTENS = 0x10000
"""__SO_ACCEPTON in the column Flags of /proc/net/unix."""
_PATIENCE_MS = 5000


@dataclass(frozen=True)
class Engine:
    """A running engine."""

    pid: int
    socket: str
    programs: tuple[int, ...]
    """The processes that it has, one for each program."""
    memory_bytes: int
    """Of all of them; what they share is counted once."""

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "pid": self.pid, "socket": self.socket, "programs": list(self.programs), "memory_bytes": self.memory_bytes,
        }  # fmt: skip


def running_engine(path: str | None = None) -> Engine | None:
    """The engine that listens at this socket (the user's, if none is named); None if there is none."""
    path = socket_path() if path is None else path
    links = {f"socket:[{inode}]" for inode in _listening(path)}
    pid = next((pid for pid in _own_processes() if links & _descriptors(pid)), None) if links else None
    if pid is None:
        return None
    programs = tuple(sorted(child for child in _own_processes() if _parent(child) == pid))
    return Engine(pid, path, programs, sum(map(_memory, (pid, *programs))))


def stop_engine(engine: Engine) -> None:
    """End it and what it has, and wait for that."""
    with contextlib.suppress(ProcessLookupError):
        watched = os.pidfd_open(engine.pid)
        try:
            signal.pidfd_send_signal(watched, signal.SIGTERM)
            poller = select.poll()
            poller.register(watched, select.POLLIN)
            if not poller.poll(_PATIENCE_MS):
                signal.pidfd_send_signal(watched, signal.SIGKILL)
                poller.poll(_PATIENCE_MS)
        finally:
            os.close(watched)


def _listening(path: str) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for line in (_PROC / "net/unix").read_text(errors="surrogateescape").splitlines()[1:]:
            words = line.split(None, 7)  # Num RefCount Protocol Flags Type St Inode Path
            if len(words) == 8 and words[7] == path and int(words[3], 16) & _LISTENS:
                yield int(words[6])


def _own_processes() -> list[int]:
    found = []
    for entry in os.scandir(_PROC):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                found.append(int(entry.name))
    return found


def _descriptors(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(_PROC / str(pid) / "fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry.path))
    return found


def _parent(pid: int) -> int:
    try:
        # pid (name) state parent ...; the name may have brackets and blanks in it
        return int((_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _memory(pid: int) -> int:
    """Its share of what it has mapped (Pss)."""
    with contextlib.suppress(OSError, ValueError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


LONGEST_PATH = 107
"""Of a Unix socket: sun_path has 108 bytes, the last is zero."""


class SocketPathError(RknnError):
    """There is no place for the socket."""


def socket_path(environment: Mapping[str, str] = os.environ) -> str:
    """The socket that OPENRKNN_ENGINE_SOCKET names, or the usual one; its folder exists then."""
    chosen = environment.get(SOCKET_VARIABLE, "")
    path = chosen or f"{folder(environment)}/{socket_name()}"
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SocketPathError(f"{path} is longer than {LONGEST_PATH} bytes; set {SOCKET_VARIABLE} to a shorter path")
    return path


def folder(environment: Mapping[str, str] = os.environ) -> str:
    """$XDG_RUNTIME_DIR/openrknn if that variable names a folder of this user, else /tmp/openrknn-UID."""
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    chosen = f"{runtime}/openrknn" if _is_ours(runtime) else f"/tmp/openrknn-{os.getuid()}"
    try:
        os.mkdir(chosen, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise SocketPathError(f"{chosen} cannot be made: {error.strerror}; set {SOCKET_VARIABLE} to a path") from None
    found = os.lstat(chosen)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SocketPathError(
            f"{chosen} is not a folder that only you can enter (it may be somebody else's, a link, or open to others); "
            f"remove it, or set {SOCKET_VARIABLE} to a path"
        )
    return chosen


def _is_ours(path: str) -> bool:
    try:
        found = os.stat(path) if path.startswith("/") else None
    except OSError:
        return False
    return found is not None and stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
