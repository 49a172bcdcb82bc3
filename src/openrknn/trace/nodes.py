"""Device nodes with an NPU behind them, and who has them open."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import platform
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from openrknn.chips import CHIPS, Chip, chip_in
from openrknn.device.kernel import Driver, SystemKernel
from openrknn.errors import DeviceError
from openrknn.uapi.tables import RKNPU, RKNPU_MISC, ROCKET, Table

_MISC = "/dev/rknpu"
_FOLDERS = ("/dev/dri", "/dev/accel")
_DRIVERS = {table.name: table for table in (RKNPU, ROCKET)}
_KCMP_NUMBER = {"x86_64": 312, "aarch64": 272}
_KCMP_FILE = 0
_CREDENTIALS = struct.Struct("iII")
_COMPATIBLE = Path("/proc/device-tree/compatible")


@dataclass(frozen=True)
class Node:
    """A device node of an NPU driver."""

    path: str
    device: int
    table: Table

    def is_open_elsewhere(self, descriptor: int) -> bool:
        """Whether another process has the open file of our descriptor."""
        own = os.getpid()
        for process in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # it ended, or it is none of our business
                for name in os.listdir(f"/proc/{process}/fd") if int(process) != own else ():
                    path = f"/proc/{process}/fd/{name}"
                    if os.readlink(path) == self.path and is_same_file(int(process), int(name), descriptor):
                        return True
        return False


def find_nodes() -> Iterator[Node]:
    """The NPUs of this machine; two nodes can lead to one."""
    kernel = SystemKernel()
    for path in (path for folder in _FOLDERS for path in kernel.nodes(folder)):
        with contextlib.suppress(DeviceError, OSError):
            driver = Driver(kernel, path)
            try:
                table = _DRIVERS.get(driver.name())
            finally:
                driver.close()
            if table is not None:
                yield Node(path, os.stat(path).st_rdev, table)
    with contextlib.suppress(OSError):
        yield Node(_MISC, os.stat(_MISC).st_rdev, RKNPU_MISC)


def chip_of_this_board() -> Chip | None:
    """What the device tree says."""
    try:
        name = chip_in(_COMPATIBLE.read_bytes().decode(errors="replace"))
    except OSError:
        return None
    return None if name is None else CHIPS[name]


def is_same_file(process: int, theirs: int, ours: int) -> bool:
    """Whether a descriptor of a process and one of this process are copies of each other; if unknown, True."""
    number = _KCMP_NUMBER.get(platform.machine())
    result = -1
    if number is not None:
        result = ctypes.CDLL(None).syscall(number, process, os.getpid(), _KCMP_FILE, theirs, ours)
    if result < 0 and process == os.getpid():  # containers may forbid the question
        return _share_a_lock(theirs, ours)
    return result <= 0


def _share_a_lock(first: int, second: int) -> bool:
    """A lock belongs to the open file: copies share it, another open of the same node does not get it."""
    try:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody else holds one
        return True
    try:
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        fcntl.flock(first, fcntl.LOCK_UN)
    return True


def peer_of(connection: socket.socket) -> int:
    """The process at the other end."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process: int = _CREDENTIALS.unpack(data)[0]
    return process
