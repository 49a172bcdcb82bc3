"""Records what a program asks of the NPU driver of a real kernel: the other side of the spy library.

The library tells of every ioctl before and after it, and hands over a copy of the program's descriptor (`spied`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openrknn.chips import Chip
from openrknn.closing import Closing
from openrknn.fakekernel.c_header import version
from openrknn.fakekernel.log import unharmed
from openrknn.fakekernel.protocol import KIND_BITS, NARROW, NO_KIND, SPY_ENVIRONMENT, Op
from openrknn.fakekernel.replies import Reply, Request, receive, send
from openrknn.fakekernel.rknpu_submit import base_of
from openrknn.fakekernel.wire import Call
from openrknn.trace.archive import TraceWriter
from openrknn.trace.nodes import Node, is_same_file, peer_of
from openrknn.trace.records import CallRecord, CloseRecord, FinishRecord, MapRecord, OpenRecord, SubmitRecord
from openrknn.trace.spied_file import SpiedFile
from openrknn.uapi import rknpu, rocket
from openrknn.uapi.ioctl import number_of, type_of
from openrknn.uapi.rknpu import JobFlag
from openrknn.uapi.tables import ROCKET, TABLES

_BUFFER_BYTES = 1 << 16


@dataclass
class _Pending:
    """An ioctl between its two messages."""

    file: SpiedFile
    call: Call
    before: dict[str, int]
    handed: int
    jobs: tuple[tuple[int, int], ...] = ()
    """Their numbers, and how many tasks each has."""


class Spy(Closing):
    """Listens in a folder of its own; programs that are started with the library and `environment` are recorded."""

    def __init__(self, nodes: Sequence[Node], chip: Chip, writer: TraceWriter) -> None:
        self.jobs = self.calls = 0
        self._nodes, self._chip, self._writer = {node.device: node for node in nodes}, chip, writer
        self._files: list[SpiedFile] = []
        self._opened = 0
        self._pending: dict[int, _Pending] = {}
        self._handed: dict[int, int] = {}
        self._last = 0
        self._lock = threading.RLock()
        self._threads: dict[threading.Thread, socket.socket] = {}
        self._place = tempfile.TemporaryDirectory(prefix="openrknn-spy-")
        self.folder = Path(self._place.name)
        lines = [f"version {version():08x}"]
        for node in nodes:
            lines.append(f"device {os.major(node.device)} {os.minor(node.device)} {TABLES.index(node.table)}")
        (self.folder / "devices").write_text("\n".join(lines) + "\n")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / "socket"))
        self._listener.listen(128)
        self._thread = threading.Thread(target=self._accept, daemon=True, name="spy")
        self._thread.start()

    @property
    def environment(self) -> Mapping[str, str]:
        """What programs need besides the library."""
        return {SPY_ENVIRONMENT: str(self.folder)}

    def close(self) -> None:
        """The program has ended; what it left unsaid is not recorded."""
        with self._listener, contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        with self._lock:
            threads = dict(self._threads)
        for thread, connection in threads.items():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            thread.join()
        for file in list(self._files):
            self._close(file)
        for descriptor in self._handed.values():
            os.close(descriptor)
        self._place.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._lock:
                self._threads[thread] = connection
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = bytearray(_BUFFER_BYTES)
        process = peer_of(connection)
        try:
            with connection, unharmed("recording"), contextlib.suppress(ConnectionError):
                while (request := receive(connection, buffer)) is not None:
                    try:
                        value = self._note(request, process)
                    finally:
                        request.payload.release()
                        if request.descriptor >= 0:
                            os.close(request.descriptor)
                    send(connection, Reply(value=value))
        finally:
            with self._lock:
                del self._threads[threading.current_thread()]
            self._close_unused()

    def _note(self, request: Request, process: int) -> int:
        operation, _, file, a, b = request.head
        if operation == Op.SPY_HAND and request.descriptor >= 0:
            with self._lock:
                self._last += 1
                self._handed[self._last] = os.dup(request.descriptor)
                return self._last
        if operation == Op.SPY_BEFORE and request.descriptor >= 0:
            opened = self._file(request.descriptor, b & NO_KIND, process)
            return self._before(opened, a, file, request.payload, narrow=b >> KIND_BITS == NARROW)
        if operation == Op.SPY_AFTER:
            self._after(file, a, b, request)
        elif operation == Op.SPY_MAP and request.descriptor >= 0:
            self._writer.add(MapRecord(self._file(request.descriptor, file, process).number, a, b, self._writer.now()))
        elif operation == Op.SPY_CLOSE:
            self._close_unused()
        return 0

    def _file(self, descriptor: int, kind: int, process: int) -> SpiedFile:
        """The open file behind a descriptor: known, or new."""
        with self._lock:
            for file in self._files:
                if is_same_file(os.getpid(), descriptor, file.descriptor):
                    return file
            self._opened += 1
            node = self._nodes[os.fstat(descriptor).st_rdev]
            file = SpiedFile(self._opened, node.path, TABLES[kind], os.dup(descriptor), self._chip.cores)
            self._files.append(file)
            self._writer.add(OpenRecord(file.number, file.path, process, self._writer.now()))
            return file

    def _before(self, file: SpiedFile, code: int, handed: int, payload: memoryview, *, narrow: bool) -> int:
        ioctl = file.table.by_key.get((type_of(code), number_of(code)))
        if ioctl is None:
            self._writer.add(CallRecord(file.number, f"unknown {code:#x}", {}, {}, 0, 0, self._writer.now()))
            return 0
        with self._lock:
            call = Call(ioctl.narrow if narrow else ioctl, code, payload)
            pending = _Pending(file, call, call.flat(), self._handed.pop(handed, -1))
            file.before(call)
            if ioctl.name == "SUBMIT":
                pending.jobs = self._submitted(file, call)
            self._last += 1
            self._pending[self._last] = pending
            return self._last

    def _submitted(self, file: SpiedFile, call: Call) -> tuple[tuple[int, int], ...]:
        jobs, at = [], self._writer.now()
        size = rocket.TASK.size if file.table is ROCKET else rknpu.TASK.size
        for lists in file.lists(call):
            self.jobs += 1
            raw = {core: (first, data.hex()) for core, (first, data) in lists.items()}
            kind = "rocket" if file.table is ROCKET else "rknpu"
            states = tuple(state for other in self._neighbours(file) for state in other.states(self._writer))
            self._writer.add(SubmitRecord(self.jobs, file.number, kind, raw, states, at, base_of(call.values)))
            jobs.append((self.jobs, sum(len(data) // size for _, data in lists.values())))
        return tuple(jobs)

    def _neighbours(self, file: SpiedFile) -> list[SpiedFile]:
        """The files that share its address space: with rknpu all of them, with rocket none."""
        return [file] if file.table is ROCKET else [other for other in self._files if other.table is file.table]

    def _after(self, number: int, result: int, nanoseconds: int, request: Request) -> None:
        with self._lock:
            pending = self._pending.pop(number, None)
        if pending is None:
            return
        file, before, at = pending.file, pending.call, self._writer.now()
        call = Call(before.ioctl, before.request, request.payload)
        code = result - (1 << 64) if result >= 1 << 63 else result
        if before.ioctl.name == "SUBMIT":
            self._finished(pending, call, code, at)
        with self._lock:
            self.calls += 1
            if code >= 0:
                file.after(call, pending.handed, request.descriptor)
            if pending.handed >= 0:
                os.close(pending.handed)
        values = pending.before, call.values
        self._writer.add(CallRecord(file.number, call.ioctl.name, *values, code, nanoseconds, at))

    def _finished(self, pending: _Pending, call: Call, code: int, at: int) -> None:
        """rocket returns at once, so it is waited for; a job that the program does not wait for ends unseen."""
        file = pending.file
        if file.table is ROCKET:
            file.wait(pending.call)
            at = self._writer.now()
        elif call.values["flags"] & JobFlag.NONBLOCK:
            return
        with self._lock:
            if file.table is not ROCKET:
                file.refresh()
            states = tuple(state for other in self._neighbours(file) for state in other.states(self._writer))
        error = "" if code >= 0 else errno.errorcode.get(-code, str(-code))
        elapsed = call.values.get("hw_elapse_time", 0)
        for job, count in pending.jobs:
            tasks = call.values.get("task_counter", 0) if error else count
            self._writer.add(FinishRecord(job, error, "kernel" if error else "", tasks, 0, elapsed, states, at))

    def _close_unused(self) -> None:
        """Files that no process has open any more, except us."""
        with self._lock:
            for file in list(self._files):
                if not self._nodes[os.fstat(file.descriptor).st_rdev].is_open_elsewhere(file.descriptor):
                    self._close(file)

    def _close(self, file: SpiedFile) -> None:
        self._files.remove(file)
        file.close()
        self._writer.add(CloseRecord(file.number, self._writer.now()))
