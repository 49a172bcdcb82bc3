"""Answers the preload libraries: one thread per connection, plain blocking calls, nothing in between."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Sequence

from openrknn.fakekernel.drm import DrmDriver
from openrknn.fakekernel.entries import Entry, LiveText
from openrknn.fakekernel.events import Called, Mapped
from openrknn.fakekernel.fences import Fence
from openrknn.fakekernel.file import Node, OpenFile
from openrknn.fakekernel.heap import DmaBuf, SyncFile
from openrknn.fakekernel.log import LOG, unharmed
from openrknn.fakekernel.open_files import OpenFiles
from openrknn.fakekernel.protocol import BUFFER_KEY, CLOSE_ON_EXEC, KIND_BITS, NARROW, NO_KIND, TAKE_BYTE, Op
from openrknn.fakekernel.replies import Reply, Request, receive, send
from openrknn.fakekernel.system import System
from openrknn.fakekernel.wire import Call
from openrknn.uapi.ioctl import number_of, type_of
from openrknn.uapi.tables import TABLES, V4L2

__all__ = ["Server"]

_NO_NODE = 0xFFFF
_CREDENTIALS = struct.Struct("iII")
_BUFFER_BYTES = 1 << 16
_LARGE_BYTES = 1 << 20
_LONGEST_GOODBYE = 10.0
_PAUSE = 0.1


class _Fences(SyncFile):
    """sync_files, found among the open files."""

    def __init__(self, files: OpenFiles) -> None:
        self._files = files

    def find_fence(self, descriptor: int) -> Fence | None:
        with contextlib.suppress(OSError):
            return self._files.find(os.fstat(descriptor).st_ino).fence
        return None


class Server:
    """Serves the nodes of one device."""

    def __init__(self, system: System, listener: socket.socket, nodes: Sequence[tuple[Node, Entry]]) -> None:
        self.files = OpenFiles(system)
        self._system = system
        self._listener = listener
        self._nodes = nodes
        self._connections: dict[threading.Thread, socket.socket] = {}
        system.open_files = self.files.all
        self._lock = threading.Lock()
        self._stopped = False
        self._thread = threading.Thread(target=self._accept, daemon=True, name="accept")
        self._dma_bufs = DmaBuf()
        self._fence_node = Node(_NO_NODE, "anon_inode:sync_file", stat.S_IFREG | 0o600, driver=_Fences(self.files))

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Hang up on everybody; open files are closed."""
        self._stopped = True
        with self._listener, contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            connections = list(self._connections.values())
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.files.stop()

    def join(self) -> None:
        """Wait for the last answers, once nothing runs any more that they could wait for."""
        with self._lock:
            threads = list(self._connections)
        deadline = time.monotonic() + _LONGEST_GOODBYE
        for thread in threads:
            thread.join(max(deadline - time.monotonic(), 0))

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if self._stopped:
                    return
                LOG.warning("a program cannot connect: %s", error.strerror)  # out of descriptors, most of all
                time.sleep(_PAUSE)
                continue
            process, user, _ = _CREDENTIALS.unpack(
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
            if user not in (os.getuid(), 0):
                connection.close()
                continue
            self._start_serving(connection, process)

    def _start_serving(self, connection: socket.socket, process: int) -> None:
        thread = threading.Thread(target=self._serve, args=(connection, process), daemon=True)
        with self._lock:
            self._connections[thread] = connection
        try:
            thread.start()
        except RuntimeError as error:  # no thread more: this program has to wait, the others go on
            LOG.warning("process %d cannot be served: %s", process, error)
            with connection, self._lock:
                del self._connections[thread]

    def _serve(self, connection: socket.socket, process: int) -> None:
        try:
            with connection, unharmed("answering a program"), contextlib.suppress(ConnectionError):
                self._converse(connection, process)
        finally:
            with self._lock:
                del self._connections[threading.current_thread()]

    def _converse(self, connection: socket.socket, process: int) -> None:
        buffer = bytearray(_BUFFER_BYTES)
        while (request := receive(connection, buffer)) is not None:
            try:
                reply = self._answer(request, process)
            finally:
                request.payload.release()  # the buffer may have to grow for the next one
                if request.descriptor >= 0:
                    os.close(request.descriptor)
            send(connection, reply)
            if len(buffer) > _LARGE_BYTES:  # a long request is rare, and connections stay
                buffer = bytearray(_BUFFER_BYTES)

    def _answer(self, request: Request, process: int) -> Reply:
        operation, _, key, a, b = request.head
        try:
            if operation == Op.IOCTL:
                return self._ioctl(key, a, request, narrow=b == NARROW)
            if operation == Op.MMAP:
                file = self.files.find(key)
                descriptor, offset = file.driver.mmap(file, a, b)
                self._system.emit(Mapped(file, a, b))
                return Reply(value=offset, descriptor=descriptor)
            if operation == Op.OPEN:
                return self._open(a, b, process)
            if operation == Op.KIND:
                return Reply(value=_value(self.files.find(key)))
        except OSError as error:
            return Reply(-(error.errno or errno.EIO))
        return Reply(-errno.ENOSYS)

    def _open(self, number: int, flags: int, process: int) -> Reply:
        if number >= len(self._nodes):
            raise OSError(errno.ENXIO, "no such node")
        node, entry = self._nodes[number]
        if isinstance(entry, LiveText):
            return Reply(value=NO_KIND | number << KIND_BITS, descriptor=self.files.open_text(entry, flags))
        file, descriptor = self.files.open(node, process)
        return Reply(value=_value(file), descriptor=descriptor)

    def _ioctl(self, key: int, code: int, request: Request, *, narrow: bool) -> Reply:
        file = self._buffer_file(key) if key & BUFFER_KEY else self.files.find(key)
        ioctl = file.driver.table.by_key.get((type_of(code), number_of(code)))
        if ioctl is None:
            driver = file.driver
            kind, number = type_of(code), number_of(code)
            other = errno.ENOTTY if driver.table is V4L2 else errno.EINVAL
            error = driver.refusal(file, kind, number) if isinstance(driver, DrmDriver) else other
            self._system.emit(Called(file, "unknown", code, {}, {}, -error, 0))
            return Reply(-error)
        call = Call(ioctl.narrow if narrow else ioctl, code, request.payload, request.descriptor)
        try:
            result = self._run(file, call) if self._system.hook is None else self._run_and_tell(file, call)
            if call.fence is not None and result == 0:
                _, call.opened = self.files.open(self._fence_node, file.process, call.fence)
            if result < 0:
                call.drop_opened()
            return Reply(result, call.encode(), _flags(call), call.opened)
        except BaseException:
            call.drop_opened()
            raise

    @staticmethod
    def _run(file: OpenFile, call: Call) -> int:
        try:
            return file.driver.ioctl(file, call)
        except OSError as error:
            return -(error.errno or errno.EIO)

    def _run_and_tell(self, file: OpenFile, call: Call) -> int:
        before, started = call.flat(), time.perf_counter_ns()
        result = self._run(file, call)
        elapsed = time.perf_counter_ns() - started
        self._system.emit(Called(file, call.ioctl.name, call.request, before, dict(call.values), result, elapsed))
        return result

    def _buffer_file(self, key: int) -> OpenFile:
        """A dma-buf has no open file here: it is identified by its memory."""
        inode = key & ~BUFFER_KEY
        if self._system.buffers.find_inode(inode) is None and not self._system.heap_inodes.knows(inode):
            raise OSError(errno.ENOTTY, "not a buffer of this device")
        node = Node(_NO_NODE, "/dmabuf", stat.S_IFREG | 0o600, driver=self._dma_bufs)
        return OpenFile(key, self._listener, node, self._dma_bufs, 0)


def _flags(call: Call) -> int:
    return CLOSE_ON_EXEC * call.close_on_exec | TAKE_BYTE * call.takes_byte


def _value(file: OpenFile) -> int:
    return TABLES.index(file.driver.table) | file.node.number << KIND_BITS
