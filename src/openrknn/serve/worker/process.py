"""`WorkerProcess`: one worker, from its start to the reason of its end."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from openrknn.errors import RknnError
from openrknn.serve.worker.message_socket import ClosedSocketError, MessageError, MessageSocket, SlowSocketError

__all__ = ["WorkerDiedError", "WorkerProcess"]

_LOG = logging.getLogger(__name__)
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_MOST_LINE, _MOST_REASON = 2000, 500
_END_SECONDS = 5.0
_SECRET = "OPENRKNN_TOKEN"
# The worker sees what this process sees, whatever it did to its path, and nothing of the folder it stands in ("" in
# the path; Python 3.10 has no -P).
_START = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "import importlib, json; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).main(int(sys.argv[3]))"
)
_CHILD = "openrknn.serve.worker.child"


class WorkerDiedError(RknnError):
    """The process that ran the model is gone; the text says why."""


class WorkerProcess:
    """A process that answers questions. `ended` is called once, from a thread of its own, when it is gone.

    `child` is the module whose `main` takes the other end of the connection.
    """

    def __init__(self, name: str, ended: Callable[[], None], child: str = _CHILD) -> None:
        self.name = name
        self.ended = ended
        self._why = ""
        """Why we ended it, where we did."""
        self._is_closing = False
        self._asking = threading.Lock()
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", _START, json.dumps(sys.path), child, str(theirs.fileno())]
            environment = {key: value for key, value in os.environ.items() if key != _SECRET}
            try:
                self._process = subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE, env=environment, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                ours.close()
                raise WorkerDiedError(f"no worker process could be started: {error.strerror}") from None
        self._wire = MessageSocket(ours)
        self._listener = threading.Thread(target=self._listen, name=f"openrknn-log-{name}", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return not self._why and self._process.poll() is None

    def ask(self, words: dict[str, Any], *, seconds: float, descriptors: list[int] | None = None) -> dict[str, Any]:
        """A request and its answer. A process that answers too late or wrongly is killed."""
        with self._asking:
            try:
                self._wire.send(words, descriptors)
                return self._wire.receive(seconds)
            except ClosedSocketError:
                raise self.died() from None
            except SlowSocketError:
                self.kill(f"no answer within {seconds:g} s")
                raise self.died() from None
            except MessageError as error:
                self.kill(str(error))
                raise self.died() from None

    def kill(self, why: str) -> None:
        """End it now."""
        self._why = self._why or why
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def died(self) -> WorkerDiedError:
        """Why it is gone; waits for a process whose sockets are closed already."""
        try:
            code = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:  # its sockets are closed, and it goes on
            self.kill("closed its connection")
            code = self._process.wait()
        return WorkerDiedError(f"the model's process ended: {self._why or _reason(code)}"[:_MOST_REASON])

    def close(self) -> None:
        """Ask it to end; a worker that does not is ended."""
        # One that has ended by itself did so whether or not it is closed before the listener hears of it.
        self._is_closing = self._is_closing or self.is_alive
        self._wire.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill("did not end")
            self._process.wait()
        self._listener.join(_END_SECONDS)

    # -- in a thread ---------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """What the worker logs, and what C libraries print before they end a process."""
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            while line := lines.readline(_MOST_LINE):
                self._log(line)
        code = self._process.wait()
        if not self._is_closing:
            _LOG.error("worker of %s (process %d) ended: %s", self.name, self.pid, self._why or _reason(code))
            self._why = self._why or _reason(code)
            self.ended()

    def _log(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        level, message = logging.WARNING, text
        with contextlib.suppress(ValueError, TypeError, KeyError):
            words = json.loads(text)
            level, message = _LEVELS[words["level"]], str(words["message"])
        if message:
            _LOG.log(level, "worker of %s: %s", self.name, message)


def _reason(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"{name} (out of memory?)" if -code == signal.SIGKILL else name
