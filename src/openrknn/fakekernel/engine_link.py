"""The server's side of the engine: starts it, tells it of buffers and jobs, hears results, starts it again."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping

from openrknn.fakekernel.gem import Buffers, Space
from openrknn.fakekernel.log import LOG
from openrknn.fakekernel.outcome import Outcome
from openrknn.fakekernel.packets import STRICT, receive_message, send_message
from openrknn.fakekernel.protocol import ENVIRONMENT, OLD_ENVIRONMENT

__all__ = ["EngineLink"]

_PATH = "OPENRKNN_ENGINE_PATH"
_BOOT = f"""
import os, sys
sys.path += filter(None, os.environ.pop({_PATH!r}).split(os.pathsep))
from openrknn.fakekernel.engine import main
main()
"""
"""The program's PYTHONPATH comes last: it may hold a NumPy for another machine."""
_STARTS_IN_VAIN = 2
"""An engine that ends so often before it is ready will never be."""


class EngineLink:
    """One engine process at a time."""

    def __init__(
        self,
        chip: str,
        buffers: Buffers,
        spaces: Callable[[], Iterable[Space]],
        on_result: Callable[[int, Outcome], None],
        on_crash: Callable[[], None],
        *,
        on_ready: Callable[[], None] = lambda: None,
        strict: bool = False,
    ) -> None:
        self._chip = chip
        self._strict = strict
        self._buffers = buffers
        self._spaces = spaces
        self._on_result = on_result
        self._on_crash = on_crash
        self._on_ready = on_ready
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None
        self._in_vain = 0
        self._is_ready = False
        self._stopped = False
        self._listeners: list[threading.Thread] = []

    @property
    def process_id(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def is_ready(self) -> bool:
        """Whether the engine has started; jobs that it was handed before wait until then."""
        return self._is_ready

    def start(self) -> None:
        """Start the process; it gets ready while others go on."""
        with self._lock:
            self._start()

    def run(
        self, job: int, space: Space, kind: str, lists: Mapping[int, tuple[int, bytes]], *, base: int = 0
    ) -> bool:
        """Hand a job over, after everything that is new in memory. False if there is no engine.

        `base` is what the NPU adds to every address of the job.
        """
        with self._lock:
            if self._link is None:
                return False
            try:
                self._tell_changes(self._link, space)
                send_message(self._link, ("run", job, space.number, kind, dict(lists), base))
            except (BrokenPipeError, ConnectionResetError):
                pass  # it died just now: the thread that listens to it sees to the job
            return True

    def forget_removed(self) -> None:
        """Let go of memory that no program has any more."""
        with self._lock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if self._link is not None:
                self._tell_changes(self._link)

    def reset(self) -> None:
        """Empty the registers and tables of all cores."""
        self._send("reset")

    def drop(self, space: Space) -> None:
        """An address space is gone."""
        self._send("drop", space.number)

    def restart(self) -> None:
        """End the process, whatever it does, and start another."""
        with self._lock:
            self._end()
            self._in_vain = 0  # it was ended: that says nothing about whether it can start
            self._start()

    def stop(self) -> None:
        """End the process for good."""
        with self._lock:
            self._stopped = True
            self._end()
            listeners, self._listeners = self._listeners, []
        for thread in listeners:
            thread.join()

    def _send(self, *message: object) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if self._link is not None:
                send_message(self._link, message)

    def _tell_changes(self, link: socket.socket, space: Space | None = None) -> None:
        """What is gone, then what is new in a space. Under one lock: between the two, one program could give an
        address back and another one get it."""
        with self._buffers.lock:
            removed, self._buffers.removed = self._buffers.removed, []
            for buffer in removed:
                send_message(link, ("unmap", buffer.space.number, buffer.serial))
            if space is None:
                return
            for buffer in space.unseen.values():
                message = ("map", space.number, buffer.serial, buffer.address, buffer.size)
                send_message(link, message, buffer.descriptor)
            space.unseen.clear()

    def _start(self) -> None:
        if self._stopped or self._in_vain >= _STARTS_IN_VAIN:
            return
        with self._buffers.lock:
            self._buffers.removed.clear()
            for space in self._spaces():
                space.unseen = dict(space.buffers)
        ours, theirs = socket.socketpair()
        with theirs:
            options = [self._chip, str(theirs.fileno()), *([STRICT] if self._strict else [])]
            command = [sys.executable, "-c", _BOOT, *options]
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=(theirs.fileno(),),
                    env=_environment(), start_new_session=True,
                )  # fmt: skip
            except OSError as error:  # no memory, or no process more: jobs fail, and the device lives
                LOG.error("the software NPU does not start: %s", error)
                ours.close()
                return
        self._link = ours
        self._is_ready = False
        self._in_vain += 1
        thread = threading.Thread(target=self._listen, args=(ours,), daemon=True, name="engine")
        self._listeners = [*(other for other in self._listeners if other.is_alive()), thread]
        thread.start()

    def _end(self) -> None:
        process, link = self._process, self._link
        self._process = self._link = None
        if link is not None:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        if process is not None:
            process.kill()
            process.wait()

    def _listen(self, link: socket.socket) -> None:
        with link, contextlib.suppress(ConnectionResetError):
            while (received := receive_message(link)) is not None:
                (name, *rest), _ = received
                if name == "ready":
                    self._in_vain = 0
                    self._is_ready = self._link is link
                    self._on_ready()
                else:
                    self._on_result(rest[0], Outcome(*rest[1:]))
        with self._lock:
            if self._link is not link:  # we ended it ourselves
                return
            self._end()
            self._start()
        self._on_crash()


def _environment() -> dict[str, str]:
    """The engine must not see the device that it is part of, nor modules that were meant for the program."""
    hidden = {"LD_PRELOAD", ENVIRONMENT, OLD_ENVIRONMENT, "PYTHONPATH", "PYTHONHOME"}
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**kept, _PATH: os.environ.get("PYTHONPATH", "")}
