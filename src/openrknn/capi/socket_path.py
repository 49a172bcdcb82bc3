"""Where the engine listens: a socket in a folder that is the user's alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from openrknn.capi.wire import SOCKET_VARIABLE, socket_name
from openrknn.errors import RknnError

__all__ = ["LONGEST_PATH", "SocketPathError", "folder", "socket_path"]

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
    """$XDG_RUNTIME_DIR/openrknn where that variable names a folder of ours, else /tmp/openrknn-UID."""
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
