"""The engine of this user that runs, found by its socket: who it is, for whom it works, what it takes, and its end.

Nothing is asked of it: the kernel's lists say which process listens at the socket and which processes it started.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from openrknn.capi.socket_path import socket_path

__all__ = ["Engine", "running_engine", "socket_path", "stop_engine"]

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
