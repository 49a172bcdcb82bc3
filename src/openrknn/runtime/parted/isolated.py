"""CPU parts of a file, in a process of their own: `CpuHost` keeps it, `IsolatedStep` runs a part in it.

ONNX Runtime cannot be interrupted inside an operator, takes whatever memory a model asks for, and runs loops for as
long as a model likes. So a part has the limits of the session (`Budget`): memory is a limit of its process, and work is
time, at one operation a nanosecond. A process that takes longer, or whose caller is interrupted, is ended; the next run
starts another one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openrknn.container.bundle import Part
from openrknn.container.onnxdata import refuse_external_data
from openrknn.errors import BudgetError, ExecutionError, FormatError, UnsupportedError
from openrknn.extras import missing
from openrknn.forks import in_child
from openrknn.npu.budget import MEMORY_VARIABLE, WORK_VARIABLE, Budget
from openrknn.runtime.parted.messages import ClosedError, SlowError, receive, send

_OPERATIONS_PER_SECOND = 10**9
_START_SECONDS, _END_SECONDS = 120.0, 5.0
# The process sees the modules that this one sees, and nothing of the folder it stands in (Python 3.10 has no -P).
_START = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "import json; sys.path[:] = json.loads(sys.argv[1]); "
    "from openrknn.runtime.parted.child import main; main(int(sys.argv[2]))"
)


class CpuHost:
    """The process, for all sessions that share their weights."""

    def __init__(self, budget: Budget, files: Mapping[int, bytes]) -> None:
        """`files`: part -> the ONNX model."""
        self.budget = budget
        self._files = files
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = os.getpid()
        self._floats: dict[int, frozenset[str]] = {}
        self._users = 1
        self.generation = 0
        """Counts processes."""
        in_child(self, CpuHost.renew)

    @property
    def seconds(self) -> float | None:
        """What one run of a part, or opening it, may take."""
        return None if self.budget.work is None else self.budget.work / _OPERATIONS_PER_SECOND

    def connect(self) -> tuple[int, socket.socket]:
        """A connection for one thread, and the generation of the process behind it."""
        with self._lock:
            control = self._started()
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    send(control, {"do": "connect"})
                    socket.send_fds(control, [b"x"], [theirs.fileno()])
                except (ClosedError, OSError):
                    ours.close()
                    raise self._ended("it") from None
            return self.generation, ours

    def open(self, number: int, part: Part) -> frozenset[str]:
        """Open a part in the process; the inputs that are float32."""
        with self._lock:
            control = self._started()
            if number not in self._floats:
                refuse_external_data(self._files[number], part.file)
                try:
                    send(control, {"do": "open", "part": number}, [np.frombuffer(self._files[number], np.uint8)])
                    answer, _ = receive(control, self.seconds)
                except SlowError:
                    raise self.too_slow(f"opening {part.file}") from None
                except ClosedError:
                    raise self._ended(f"opening {part.file}") from None
                except BaseException:  # an interrupt
                    self.kill()
                    raise
                if "error" in answer:
                    if answer["is_memory"]:
                        raise self.too_large(f"opening {part.file}")
                    raise FormatError(f"ONNX Runtime does not take {part.file}: {answer['error']}")
                self._floats[number] = frozenset(map(str, answer["floats"]))
            return self._floats[number]

    def too_slow(self, what: str) -> BudgetError:
        """The error; the process is gone."""
        self.kill()
        return BudgetError(
            f"{what} took more than {self.seconds:g} s on the CPU. Real models stay far below; if this one is real, "
            f"allow more with Session(max_work=...) or {WORK_VARIABLE}, for example {WORK_VARIABLE}=1T for 1000 s"
        )

    def too_large(self, what: str) -> BudgetError:
        """The error for memory."""
        return BudgetError(
            f"{what} needs more memory on the CPU than the {self.budget.memory or 0:,} bytes that are allowed. If this "
            f"model is real, allow more with Session(max_memory=...) or {MEMORY_VARIABLE}, for example "
            f"{MEMORY_VARIABLE}=8G"
        )

    def lost(self, what: str) -> ExecutionError:
        """The process ended by itself: why."""
        with self._lock:
            return self._ended(what)

    def kill(self) -> None:
        """End the process now; the next use starts another one."""
        with self._lock:
            process, control = self._process, self._control
            self._process = self._control = None
            self._floats.clear()
            if control is not None:
                control.close()
            if process is not None and self._owner == os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.wait()

    def join(self) -> CpuHost:
        """Another session uses it."""
        with self._lock:
            self._users += 1
        return self

    def leave(self) -> None:
        """A session is closed; the last one ends the process."""
        with self._lock:
            self._users -= 1
            if self._users <= 0:
                self.kill()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the interpreter anything may be gone
            self.kill()

    def renew(self) -> None:
        """In a forked process, to which the other one does not belong."""
        self._lock = threading.RLock()
        if self._control is not None:
            self._control.close()
        self._process = self._control = None
        self._floats = {}
        self._owner = os.getpid()
        self.generation += 1

    def _started(self) -> socket.socket:
        if self._control is not None:
            return self._control
        try:
            import importlib.util

            if importlib.util.find_spec("onnxruntime") is None:
                raise ImportError("No module named 'onnxruntime'", name="onnxruntime")
        except ImportError as error:
            raise UnsupportedError(f"parts of the CPU run in ONNX Runtime: {missing(error, 'parts')}") from None
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", _START, json.dumps(sys.path), str(theirs.fileno())]
            try:
                self._process = subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                ours.close()
                raise ExecutionError(f"no process for CPU parts can be started: {error.strerror}") from None
        self._control = ours
        self.generation += 1
        try:
            send(ours, {"do": "limit", "memory": self.budget.memory, "files": sum(map(len, self._files.values()))})
            receive(ours, _START_SECONDS)
        except (ClosedError, SlowError):
            raise self._ended("starting") from None
        except BaseException:
            self.kill()
            raise
        return ours

    def _ended(self, what: str) -> ExecutionError:
        code = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(_END_SECONDS)
        self.kill()
        if code in {-signal.SIGKILL, -signal.SIGABRT}:
            return self.too_large(what)  # the kernel, or ONNX Runtime where it cannot report it
        reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        return ExecutionError(f"{what}: the process that runs CPU parts ended ({reason})")


class IsolatedStep:
    """A CPU part of a file."""

    def __init__(self, part: Part, number: int, host: CpuHost) -> None:
        self.part, self._number, self._host = part, number, host
        self._connection: socket.socket | None = None
        self._generation = 0
        self._connect()

    def run(self, values: Sequence[Any]) -> list[Any]:
        """Any types."""
        floats = self._connect()
        connection = self._connection
        assert connection is not None
        given = [
            value.astype(np.float32)
            if name in floats and isinstance(value, np.ndarray) and value.dtype == np.float16
            else value
            for name, value in zip(self.part.inputs, values, strict=True)
        ]
        words = {"part": self._number, "inputs": self.part.inputs, "outputs": self.part.outputs}
        host, what = self._host, self.part.file
        try:
            send(connection, words, given)
            answer, found = receive(connection, host.seconds)
        except SlowError:
            raise host.too_slow(what) from None
        except ClosedError:
            raise host.lost(what) from None
        except BaseException:  # an interrupt: a part that goes on would delay the next run
            host.kill()
            raise
        if "error" not in answer:
            return found
        if answer["is_memory"]:
            raise host.too_large(what)
        # It took the model: what it refuses now are the sizes or numbers of the inputs.
        raise ValueError(f"a part on the CPU cannot run on these inputs: {what}: {answer['error']}")

    def shared(self) -> IsolatedStep:
        """This part for a second session, which may run it at the same time."""
        return IsolatedStep(self.part, self._number, self._host)

    def close(self) -> None:
        """The connection; the process belongs to the session."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> frozenset[str]:
        floats = self._host.open(self._number, self.part)
        if self._connection is None or self._generation != self._host.generation:
            self.close()
            self._generation, self._connection = self._host.connect()
        return floats
