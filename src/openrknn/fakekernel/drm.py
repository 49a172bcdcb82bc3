"""What the DRM core answers for every driver: version, handles, names, dma-bufs, mmap.

The errors are those of drivers/gpu/drm in Linux 6.1: unknown handles are ENOENT or EINVAL depending on who asks.
"""

from __future__ import annotations

import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeAlias

from openrknn.fakekernel.file import OpenFile
from openrknn.fakekernel.gem import Buffer, Handles
from openrknn.fakekernel.system import System
from openrknn.fakekernel.wire import Call
from openrknn.uapi import drm
from openrknn.uapi.ioctl import WRITE, direction_of
from openrknn.uapi.tables import Table

__all__ = ["DrmDriver", "Handler", "refuse"]

Handler: TypeAlias = Callable[[OpenFile, dict[str, int], Call], None]
_CAPABILITIES = {
    drm.CAP_PRIME: drm.PRIME_CAP_IMPORT | drm.PRIME_CAP_EXPORT,
    drm.CAP_TIMESTAMP_MONOTONIC: 1,
    drm.CAP_SYNCOBJ: 0,
    drm.CAP_SYNCOBJ_TIMELINE: 0,
}
"""What drivers without a display are asked; everything else is EOPNOTSUPP, whether it exists or not."""
_MUCH_MEMORY = 16 << 20


def refuse(code: int, why: str) -> OSError:
    """The error that a driver answers with."""
    return OSError(code, why)


class DrmDriver(ABC):
    """A driver behind a DRM node."""

    table: Table
    name: str
    version: tuple[int, int, int]
    date = "0"
    """What Linux says since drivers have none: an empty text makes drmGetVersion of libdrm up to 2.4.124 crash."""
    description: str

    def __init__(self, system: System, unique: str) -> None:
        self.system = system
        self.unique = unique
        self._handlers: Mapping[int, Handler] = {
            **{
                drm.VERSION.number: self._version,
                drm.GET_UNIQUE.number: self._get_unique,
                drm.GET_MAGIC.number: self._get_magic,
                drm.SET_VERSION.number: self._set_version,
                drm.GEM_CLOSE.number: self._gem_close,
                drm.GEM_FLINK.number: self._gem_flink,
                drm.GEM_OPEN.number: self._gem_open,
                drm.GET_CAP.number: self._get_cap,
                drm.SET_CLIENT_CAP.number: self._set_client_cap,
                drm.PRIME_HANDLE_TO_FD.number: self._handle_to_fd,
                drm.PRIME_FD_TO_HANDLE.number: self._fd_to_handle,
            },
            **self.handlers(),
        }

    @abstractmethod
    def handlers(self) -> Mapping[int, Handler]:
        """The driver's own ioctls by number."""

    @abstractmethod
    def import_buffer(self, file: OpenFile, descriptor: int) -> Buffer:
        """The buffer behind a dma-buf."""

    def open(self, file: OpenFile) -> None:
        """A file without handles."""
        file.handles = Handles(self.system.buffers)

    def close(self, file: OpenFile) -> None:
        """Jobs that wait are dropped, handles are closed."""
        self.system.scheduler.cancel(file)
        self.handles(file).clear()
        self.system.forget_removed()

    def ioctl(self, file: OpenFile, call: Call) -> int:
        """Find who answers, and whether this node may ask."""
        number = call.ioctl.number
        if file.node.is_render and number < drm.COMMAND_BASE and number not in drm.RENDER_ALLOWED:
            raise refuse(errno.EACCES, "not on a render node")
        if not direction_of(call.request) & call.ioctl.direction & WRITE:  # nothing is copied from the program
            call.values.update(dict.fromkeys(call.values, 0))
        self._handlers[number](file, call.values, call)
        return 0

    def refusal(self, file: OpenFile, kind: int, number: int) -> int:
        """The errno for an unsupported request; 0 for one that does nothing."""
        if kind != ord(drm.MAGIC):
            return errno.ENOTTY
        if file.node.is_render and min(drm.OF_DISPLAYS) <= number <= drm.LAST_OF_DISPLAYS:
            return errno.EOPNOTSUPP if number in drm.SYNC_OBJECTS else errno.EACCES
        if number in drm.WITHOUT_EFFECT:
            return 0
        if number in drm.DUMB_BUFFERS:  # these exist on a card; what is asked of them fails
            return errno.ENOENT if number == drm.MAP_DUMB else errno.EINVAL
        return errno.EOPNOTSUPP if number in drm.OF_DISPLAYS else errno.EINVAL

    def mmap(self, file: OpenFile, offset: int, length: int) -> tuple[int, int]:
        """The buffer that the offset stands for; only from its start, at most all of it."""
        with self.system.buffers.lock:
            buffer = self.system.buffers.find_offset(offset)
            if buffer is None or length > buffer.size:
                raise refuse(errno.EINVAL, "no buffer of this size at the offset")
            if not self.handles(file).holds(buffer):
                raise refuse(errno.EACCES, "the file has no handle for it")
            return os.dup(buffer.descriptor), 0

    @staticmethod
    def handles(file: OpenFile) -> Handles:
        """The file's handles."""
        assert file.handles is not None
        return file.handles

    def lookup(self, file: OpenFile, handle: int, code: int = errno.ENOENT) -> Buffer:
        """The buffer of a handle."""
        buffer = self.handles(file).get(handle)
        if buffer is None:
            raise refuse(code, f"no handle {handle}")
        return buffer

    def _version(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        values["version_major"], values["version_minor"], values["version_patchlevel"] = self.version
        for name, text in (("name", self.name), ("date", self.date), ("desc", self.description)):
            call.fill(name, text.encode())
            values[f"{name}_len"] = len(text)

    def _get_unique(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        if values["unique_len"] >= len(self.unique):
            call.fill("unique", self.unique.encode())
        values["unique_len"] = len(self.unique)

    def _get_magic(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        values["magic"] = file.number

    def _set_version(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        is_wrong = values["drm_di_major"] not in (-1, 1) or values["drm_di_minor"] not in range(-1, 5)
        values["drm_di_major"], values["drm_di_minor"] = 1, 4
        values["drm_dd_major"], values["drm_dd_minor"] = self.version[:2]
        if is_wrong:
            raise refuse(errno.EINVAL, "no such version of the interface")

    def _gem_close(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        self.close_handle(file, values["handle"])

    def close_handle(self, file: OpenFile, handle: int) -> None:
        """Close a handle, and give large memory back soon."""
        if not self.handles(file).remove(handle):
            raise refuse(errno.EINVAL, f"no handle {handle}")
        self.system.forget_removed(at_least=_MUCH_MEMORY)

    def _gem_flink(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        values["name"] = self.system.buffers.give_name(self.lookup(file, values["handle"]))

    def _gem_open(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        with self.system.buffers.lock:
            buffer = self.system.buffers.find_name(values["name"])
            if buffer is None:
                raise refuse(errno.ENOENT, f"no buffer is called {values['name']}")
            values["handle"], values["size"] = self.handles(file).add(buffer), buffer.size

    def _get_cap(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        capability = values["capability"]
        if capability not in _CAPABILITIES:
            raise refuse(errno.EOPNOTSUPP, f"no display, so no capability {capability}")
        values["value"] = _CAPABILITIES[capability]

    def _set_client_cap(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        raise refuse(errno.EOPNOTSUPP, "no display")

    def _handle_to_fd(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        if values["flags"] & ~(drm.CLOEXEC | drm.RDWR):
            raise refuse(errno.EINVAL, "unknown flags")
        with self.system.buffers.lock:
            call.opened = os.dup(self.lookup(file, values["handle"]).descriptor)
        call.close_on_exec = bool(values["flags"] & drm.CLOEXEC)

    def _fd_to_handle(self, file: OpenFile, values: dict[str, int], call: Call) -> None:
        if call.descriptor < 0:
            raise refuse(errno.EBADF, "no descriptor")
        with self.system.buffers.lock:
            buffer = self.import_buffer(file, call.descriptor)
            values["handle"] = self.handles(file).add(buffer, again=True)
