"""Several of us on one node: the old and the new pod of a rolling upgrade, and what a killed one left behind.

Each process has sockets with names of its own. The kubelet knows them as separate plugins, a new one needs not wait for
the old one to go, and a kubelet that has given up on a dead socket (it waits up to two minutes before it tries the same
path again) sees another path. The name has the time since boot: of two that live, the newer one speaks for the node.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["Family", "new_token"]

_BIRTH_SECONDS = 10.0
_TOKEN = re.compile(r"[0-9a-f]{14}")


def new_token() -> str:
    """Greater for later starts; 14 characters, because the path of a socket has at most 107."""
    # Not the wall clock: boards without a battery jump when they first hear the time. An earlier boot is dead.
    moment = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return f"{moment & 0xFF_FFFF_FFFF:010x}{secrets.randbelow(1 << 16):04x}"


class Family:
    """The sockets of all instances in one folder: "dra.sock" and "dra-0000ab12cd34ef.sock"."""

    def __init__(self, folder: Path, prefix: str, suffix: str) -> None:
        self._folder, self._prefix, self._suffix = folder, prefix, suffix

    def path(self, token: str) -> Path:
        """The socket of one instance."""  # hidden until it listens: see services.Socket
        return self._folder / f"{self._prefix}-{token}{self._suffix}"

    def members(self) -> Iterator[tuple[str, Path]]:
        """Tokens and paths; the token of a socket of older versions is empty."""
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(self._folder)):
                if not name.startswith(self._prefix) or not name.endswith(self._suffix):
                    continue
                token = name[len(self._prefix) : len(name) - len(self._suffix)]
                if not token or _TOKEN.fullmatch(token.removeprefix("-")):
                    yield token.removeprefix("-"), self._folder / name

    def has_newer(self, token: str) -> bool:
        """Whether an instance that started after us answers on its socket."""
        return any(other > token and not is_dead(path) for other, path in self.members())

    def remove_dead(self, token: str) -> list[Path]:
        """Sockets without a listener: those of processes that were killed."""
        dead = [path for other, path in self.members() if other != token and is_dead(path)]
        hidden = self._folder.glob(f".{self._prefix}-*{self._suffix}")
        dead += [path for path in hidden if _is_old(path) and is_dead(path)]
        for path in dead:
            with contextlib.suppress(OSError):
                path.unlink()
        return dead


def _is_old(path: Path) -> bool:
    """A socket between its birth and its first listener is not dead."""
    try:
        return time.time() - path.stat().st_mtime > _BIRTH_SECONDS
    except OSError:
        return False


def is_dead(path: Path) -> bool:
    """Whether no process listens. In doubt (it is busy, or we may not connect) somebody does."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        try:
            client.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False
    return False
