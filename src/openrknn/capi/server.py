"""The engine as a fork server: it imports everything once and forks a process for each program that connects.

The server itself has one thread and runs no model. A program's process holds what the program made; it ends when the
program closes its first connection (by the kernel, if need be), and it is killed when the server dies.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import logging
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable

from openrknn.capi.wire import SOCKET_VARIABLE

_LOG = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1
_CREDENTIALS = struct.Struct("3i")
_MODULES = ("openrknn.capi.channel", "openrknn.capi.calls", "openrknn.device.software", "openrknn.nativelib")
"""What every program's process would import otherwise."""
_SOONER_OR_LATER = ("hashlib", "openrknn.runtime.profile")
"""What some of them import while they work."""
_QUIET_S = 0.5
"""After this time without a program the engine imports what only some programs need."""


def warm_up() -> None:
    """Import what every program needs, load the native library, and keep all that out of the garbage collector."""
    gc.disable()
    for name in _MODULES:
        importlib.import_module(name)
    sys.modules["openrknn.nativelib"].library()
    gc.freeze()
    gc.enable()


class Server:
    """Accepts programs of the same user."""

    def __init__(self, listener: socket.socket, path: str, *, idle_s: float) -> None:
        self._listener, self._path, self._idle_s = listener, path, idle_s
        self._inode = os.stat(path).st_ino
        self._children: set[int] = set()
        self._over = self._is_complete = False
        self._since = 0.0
        """When the last program ended."""

    def run(self) -> None:
        """Until it has been idle for a while, or SIGTERM."""
        waker, ringing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(ringing, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._end)
        for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(ignored, signal.SIG_IGN)
        self._listener.setblocking(False)
        poller = select.poll()
        for descriptor in (self._listener.fileno(), waker):
            poller.register(descriptor, select.POLLIN)
        self._since = time.monotonic()
        while not self._over:
            ready = {descriptor for descriptor, _ in poller.poll(self._patience_ms())}
            if not ready and not self._is_complete:
                self._import_the_rest()
                continue
            if waker in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(waker, 4096)
                self._reap()
            accepted = self._accept() if self._listener.fileno() in ready else False
            if not accepted and not self._children and time.monotonic() >= self._since + self._idle_s:
                self._unlink()
                if not self._accept():  # somebody may have come just before
                    break
        self._leave()

    def _patience_ms(self) -> float | None:
        left = None if self._children else max(self._since + self._idle_s - time.monotonic(), 0.0)
        if not self._is_complete:
            left = _QUIET_S if left is None else min(left, _QUIET_S)
        return None if left is None else left * 1000 + 1

    def _import_the_rest(self) -> None:
        self._is_complete = True
        try:
            sys.modules["openrknn.capi.calls"].load_all()
            for name in _SOONER_OR_LATER:
                importlib.import_module(name)
        except Exception:  # noqa: BLE001 - the engine goes on for all others
            _LOG.exception("optional modules cannot be imported; programs that need them get an error")
        gc.freeze()

    def _accept(self) -> bool:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return False
        with connection:
            if not _is_same_user(connection):
                return False
            try:
                self._children.add(self._fork(connection))
            except OSError as error:
                _LOG.warning("no process for a program: %s", error)
                return False
        return True

    def _fork(self, connection: socket.socket) -> int:
        parent = os.getpid()
        child = os.fork()
        if child:
            return child
        try:
            _begin(parent)
            self._listener.close()
            _serve(connection)
        except BaseException:  # noqa: BLE001 - the log is all there is
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):
                atexit._run_exitfuncs()
                sys.stderr.flush()
            os._exit(0)

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                child, _ = os.waitpid(-1, os.WNOHANG)
                if not child:
                    return
                self._children.discard(child)
                self._since = time.monotonic()

    def _leave(self) -> None:
        """New clients start another engine; the processes of programs end, too."""
        self._unlink()
        self._listener.close()
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def _unlink(self) -> None:
        """The socket at the path may be another engine's by now."""
        with contextlib.suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)

    def _end(self, *_: object) -> None:
        self._over = True


def _is_same_user(connection: socket.socket) -> bool:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(raw)
    return bool(user == os.getuid())


def _begin(parent: int) -> None:
    """In the new process: die with the server, and take signals as usual."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    prctl: Callable[[int, int], int] = ctypes.CDLL(None).prctl
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)
    os.environ.pop(SOCKET_VARIABLE, None)


def _serve(connection: socket.socket) -> None:
    from openrknn.capi.channel import SocketChannel  # here: the server's process does without until it is warm
    from openrknn.capi.client import Client

    SocketChannel(Client(), connection).serve()
