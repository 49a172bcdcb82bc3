"""The open files of a device. One thread notices when the last copy of a program's end is gone.

An open file is a pair of sockets: the program has one end, we have the other. Whatever happens to the program's end
(copies, forks, exec, a kill), ours hangs up when its last copy is closed, and then the file is closed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import threading

from openrknn.fakekernel.entries import LiveText
from openrknn.fakekernel.events import Closed, Opened
from openrknn.fakekernel.fences import Fence
from openrknn.fakekernel.file import Node, OpenFile
from openrknn.fakekernel.log import unharmed
from openrknn.fakekernel.system import System

__all__ = ["OpenFiles"]

_MOST_TEXT = 4096


class OpenFiles:
    """Opens, finds and closes."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._by_key: dict[int, OpenFile] = {}
        self._by_end: dict[int, OpenFile] = {}
        self._texts: dict[int, tuple[socket.socket, LiveText]] = {}
        self._lock = threading.Lock()
        self._poll = select.epoll()
        self._waker, self._woken = socket.socketpair()
        self._poll.register(self._woken.fileno(), select.EPOLLIN)
        self._thread = threading.Thread(target=self._notice, daemon=True, name="notice")
        self._thread.start()

    def all(self) -> list[OpenFile]:
        """Files of devices, without fences."""
        with self._lock:
            return [file for file in self._by_key.values() if file.fence is None]

    def find(self, key: int) -> OpenFile:
        """The open file whose program's end has this inode number."""
        file = self._by_key.get(key)
        if file is None:
            raise OSError(errno.ENOENT, "not an open file of this device")
        return file

    def open(self, node: Node, process: int, fence: Fence | None = None) -> tuple[OpenFile, int]:
        """A new open file, and the descriptor for the program."""
        assert node.driver is not None
        if fence is not None:
            ours, theirs = fence.open()
        else:
            ours, other = socket.socketpair()
            theirs = other.detach()
        file = OpenFile(os.fstat(theirs).st_ino, ours, node, node.driver, process, fence=fence)
        try:
            node.driver.open(file)
        except BaseException:  # the driver refused: close both ends
            ours.close()
            os.close(theirs)
            raise
        with self._lock:
            self._by_key[file.key] = self._by_end[ours.fileno()] = file
            self._poll.register(ours.fileno(), select.EPOLLRDHUP)
        if fence is None:
            self._system.emit(Opened(file))
        return file, theirs

    def open_text(self, entry: LiveText, flags: int) -> int:
        """A text as it is now; for writing, a socket whose other end we read."""
        if flags & os.O_ACCMODE == os.O_RDONLY:
            descriptor = os.memfd_create(os.path.basename(entry.path), os.MFD_CLOEXEC)
            os.write(descriptor, entry.read().encode())
            os.lseek(descriptor, 0, os.SEEK_SET)
            return descriptor
        if entry.write is None:
            raise OSError(errno.EACCES, "read only")
        ours, theirs = socket.socketpair()
        ours.send(entry.read().encode())
        with self._lock:
            self._texts[ours.fileno()] = ours, entry
            self._poll.register(ours.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
        return theirs.detach()

    def stop(self) -> None:
        """Close everything."""
        self._waker.close()
        self._thread.join()
        with self._woken, self._poll:
            for file in list(self._by_key.values()):
                self._close(file)
            for end, _ in self._texts.values():
                end.close()

    def _notice(self) -> None:
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == self._woken.fileno():
                    return
                if descriptor in self._texts:
                    with unharmed("writing to a file"):
                        self._read_text(descriptor)
                elif (file := self._by_end.get(descriptor)) is not None:
                    self._close(file)

    def _close(self, file: OpenFile) -> None:
        with self._lock:
            del self._by_key[file.key], self._by_end[file.end.fileno()]
            self._poll.unregister(file.end.fileno())
            file.is_closed = True
        with file.end, unharmed(f"closing {file.node.path}"):
            file.driver.close(file)
        if file.fence is None:
            self._system.emit(Closed(file))

    def _read_text(self, descriptor: int) -> None:
        end, entry = self._texts[descriptor]
        data = b""
        with contextlib.suppress(ConnectionResetError):
            data = end.recv(_MOST_TEXT)
        if data and entry.write is not None:
            entry.write(data.decode(errors="replace"))
            return
        with end, self._lock:
            del self._texts[descriptor]
            self._poll.unregister(descriptor)
