"""`openrknn-engine`: the process that the open librknnrt.so talks to. The library starts it; people rarely do.

    openrknn-engine                         in the background; returns when it listens
    openrknn-engine --foreground            stays, and says what goes wrong on the terminal
    openrknn-engine --socket PATH           listens there instead of in the user's folder

It ends by itself when no program has used it for OPENRKNN_ENGINE_IDLE seconds (30).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import socket
import sys
from collections.abc import Iterator, Sequence

from openrknn.capi.engine_process import SocketPathError, socket_path
from openrknn.capi.wire import SOCKET_VARIABLE
from openrknn.errors import RknnError

IDLE_VARIABLE = "OPENRKNN_ENGINE_IDLE"
_IDLE_S = 30.0
_BACKLOG = 512
_READY = b"ready"


def main(arguments: Sequence[str] | None = None) -> int:
    """The console script."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        foreground, path, idle_s = _options(words)
        if not foreground:
            _close_inherited()
        with _only_one(path) as lock:
            listener = _bound(path)
            if listener is None:
                return 0
            if not foreground:
                return _in_background(listener, path, idle_s, lock)
            listener.listen(_BACKLOG)
        return _stay(listener, path, idle_s)
    except RknnError as error:
        sys.stderr.write(f"openrknn-engine: {error}\n")
        return 1


def _options(words: Sequence[str]) -> tuple[bool, str, float]:
    foreground, path = False, ""
    if words:
        import argparse  # here: the library starts the engine without arguments, and waits for it

        parser = argparse.ArgumentParser(prog="openrknn-engine", description="The engine of the open librknnrt.so.")
        parser.add_argument("--foreground", action="store_true", help="run in the foreground")
        parser.add_argument("--socket", default="", help=f"where to listen; {SOCKET_VARIABLE} says the same")
        given = parser.parse_args(words)
        foreground, path = given.foreground, given.socket
    text = os.environ.get(IDLE_VARIABLE, "") or str(_IDLE_S)
    try:
        idle_s = float(text)
        if not 0 <= idle_s < 1e9:
            raise ValueError
    except ValueError:
        raise SocketPathError(f"{IDLE_VARIABLE}={text!r} is not a number of seconds") from None
    return foreground, socket_path({**os.environ, SOCKET_VARIABLE: path} if path else os.environ), idle_s


def _close_inherited() -> None:
    """Descriptors of the program that started us: it may wait for their end."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.close(int(name))


@contextlib.contextmanager
def _only_one(path: str) -> Iterator[int]:
    """While programs start engines at the same time, one looks and listens after the other."""
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SocketPathError(f"{path}.lock cannot be opened: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock
    finally:
        os.close(lock)


def _bound(path: str) -> socket.socket | None:
    """A socket with the engine's address; None if an engine listens there already."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.connect(path)
        listener.close()
        return None
    except OSError:
        pass
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    except OSError as error:
        raise SocketPathError(f"cannot listen at {path}: {error.strerror}") from None
    finally:
        os.umask(before)
    return listener


def _in_background(listener: socket.socket, path: str, idle_s: float, lock: int) -> int:
    """A daemon; this process waits until it is warm, and passes on what went wrong. The lock stays here."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            said = stream.read()
        if said != _READY:
            sys.stderr.write(f"openrknn-engine: {said.decode(errors='replace') or 'it ended at once'}\n")
        return 0 if said == _READY else 1
    code = 1
    try:
        os.close(reading)
        os.close(lock)
        listener.listen(_BACKLOG)  # by the process that stays: its number is what the other side sees (SO_PEERCRED)
        os.setsid()
        os.chdir("/")
        _redirect(f"{path}.log")
        code = _stay(listener, path, idle_s, writing)
    finally:
        os._exit(code)


def _redirect(log: str) -> None:
    """Standard output and errors into a log beside the socket; each engine truncates it."""
    empty = os.open(os.devnull, os.O_RDWR)
    try:
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    except OSError:
        target = empty
    for number, descriptor in ((0, empty), (1, target), (2, target)):
        os.dup2(descriptor, number)
    for descriptor in {empty, target} - {0, 1, 2}:
        os.close(descriptor)


def _stay(listener: socket.socket, path: str, idle_s: float, ready: int | None = None) -> int:
    try:
        from openrknn.capi.server import Server, warm_up  # here: after the socket, where programs already queue

        warm_up()
    except Exception as error:
        if ready is not None:
            os.write(ready, f"{type(error).__name__}: {error}".encode())
        raise
    if ready is not None:
        os.write(ready, _READY)
        os.close(ready)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a program has a descriptor for each memory
    Server(listener, path, idle_s=idle_s).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
