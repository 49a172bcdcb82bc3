"""A PCI device in this process for a virtual machine in another one: the server's side of vfio-user.

Written from the published specification (vfio-user protocol, version 0.1), for one client over a Unix socket. The
client maps its memory for us (descriptors come with the message), reads and writes the regions of the device, and
gives us a descriptor to signal for its interrupt.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import socket
import struct
from enum import IntEnum, IntFlag
from typing import Protocol

__all__ = [
    "CONFIG_REGION", "HEADER", "INTX", "REGIONS", "Command", "DeviceServer", "IrqFlag", "MessageFlag", "PciDevice",
]  # fmt: skip

LOG = logging.getLogger(__name__)
HEADER = struct.Struct("<HHIII")
"""Message number, command, size with this header, flags, error."""
REGIONS, INTERRUPTS = 9, 5
CONFIG_REGION = 7
INTX = 0
_LARGEST_MESSAGE = 1 << 20
_MOST_DESCRIPTORS = 8
_VERSION = struct.Struct("<HH")
_DMA_MAP = struct.Struct("<IIQQQ")
_DMA_UNMAP = struct.Struct("<IIQQ")
_DEVICE_INFO = struct.Struct("<IIII")
_REGION_INFO = struct.Struct("<IIIIQQ")
_IRQ_INFO = struct.Struct("<IIII")
_IRQ_SET = struct.Struct("<IIIII")
_ACCESS = struct.Struct("<QII")
_READ_WRITE = 3
_IS_PCI = 2
_CAN_RESET = 1
_LEVEL_INTERRUPT = 7
"""With a descriptor, can be masked, masks itself."""


class Command(IntEnum):
    """What a client asks for."""

    VERSION = 1
    DMA_MAP = 2
    DMA_UNMAP = 3
    DEVICE_GET_INFO = 4
    DEVICE_GET_REGION_INFO = 5
    DEVICE_GET_REGION_IO_FDS = 6
    DEVICE_GET_IRQ_INFO = 7
    DEVICE_SET_IRQS = 8
    REGION_READ = 9
    REGION_WRITE = 10
    DEVICE_RESET = 13


class MessageFlag(IntFlag):
    """Of the header."""

    REPLY = 1
    NO_REPLY = 0x10
    ERROR = 0x20


class IrqFlag(IntFlag):
    """Of SET_IRQS."""

    DATA_NONE = 1
    DATA_BOOL = 2
    DATA_EVENTFD = 4
    MASK = 8
    UNMASK = 16
    TRIGGER = 32


class PciDevice(Protocol):
    """What the client talks to. All methods are called by the thread that serves."""

    @property
    def region_sizes(self) -> dict[int, int]:
        """Regions that there are: 0 is the first BAR, `CONFIG_REGION` the configuration space."""

    def read(self, region: int, offset: int, size: int) -> bytes:
        """Bytes of a region."""

    def write(self, region: int, offset: int, data: bytes) -> None:
        """Change them."""

    def map_memory(self, address: int, size: int, descriptor: int, offset: int) -> None:
        """Memory of the client is at a physical address. The descriptor is the device's from now on."""

    def unmap_memory(self, address: int, size: int) -> None:
        """That memory is gone."""

    def set_interrupt(self, descriptor: int | None) -> None:
        """What to signal from now on. The descriptor is the device's."""

    def unmask_interrupt(self) -> None:
        """The client has seen the last one: signal again if the device still asks for it."""

    def reset(self) -> None:
        """As after power-on."""


class DeviceServer:
    """Serves one client until it hangs up."""

    def __init__(self, connection: socket.socket, device: PciDevice) -> None:
        self._connection = connection
        self._device = device
        self._descriptors: list[int] = []

    def serve(self) -> None:
        """Answer messages until the client closes the connection."""
        with self._connection:
            try:
                while (header := self._receive(HEADER.size)) is not None:
                    number, command, size, flags, _ = HEADER.unpack(header)
                    if not HEADER.size <= size <= _LARGEST_MESSAGE:
                        LOG.warning("a message of %d bytes ends the connection", size)
                        return
                    payload = self._receive(size - HEADER.size)
                    if payload is None:
                        return
                    self._answer(number, command, flags, payload)
            finally:
                self._drop_descriptors()

    def _receive(self, size: int) -> bytes | None:
        """Exactly `size` bytes; None at the end of the connection. Descriptors that come with them are kept."""
        data = b""
        while len(data) < size:
            part, descriptors, _, _ = socket.recv_fds(self._connection, size - len(data), _MOST_DESCRIPTORS)
            self._descriptors += descriptors
            if not part:
                return None
            data += part
        return data

    def _answer(self, number: int, command: int, flags: int, payload: bytes) -> None:
        reply, error = b"", 0
        try:
            reply = self._obey(command, payload)
        except OSError as refused:
            error = refused.errno or errno.EIO
        except struct.error:
            error = errno.EINVAL
        self._drop_descriptors()
        if flags & MessageFlag.NO_REPLY:
            return
        flags = MessageFlag.REPLY | (MessageFlag.ERROR if error else 0)
        self._connection.sendall(HEADER.pack(number, command, HEADER.size + len(reply), flags, error) + reply)

    def _obey(self, command: int, payload: bytes) -> bytes:
        device = self._device
        if command == Command.VERSION:
            return _version(payload)
        if command in (Command.DMA_MAP, Command.DMA_UNMAP):
            return self._memory(command, payload)
        if command == Command.DEVICE_GET_INFO:
            return _DEVICE_INFO.pack(_DEVICE_INFO.size, _IS_PCI | _CAN_RESET, REGIONS, INTERRUPTS)
        if command == Command.DEVICE_GET_REGION_INFO:
            index = _REGION_INFO.unpack_from(payload)[2]
            size = device.region_sizes.get(_below(index, REGIONS), 0)
            return _REGION_INFO.pack(_REGION_INFO.size, _READ_WRITE if size else 0, index, 0, size, 0)
        if command == Command.DEVICE_GET_IRQ_INFO:
            index = _below(_IRQ_INFO.unpack_from(payload)[2], INTERRUPTS)
            is_line = index == INTX
            return _IRQ_INFO.pack(_IRQ_INFO.size, _LEVEL_INTERRUPT if is_line else 0, index, int(is_line))
        if command == Command.DEVICE_SET_IRQS:
            self._set_interrupts(payload)
            return b""
        if command in (Command.REGION_READ, Command.REGION_WRITE):
            return self._access(command, payload)
        if command == Command.DEVICE_RESET:
            device.reset()
            return b""
        raise OSError(errno.ENOTSUP, f"command {command}")

    def _memory(self, command: int, payload: bytes) -> bytes:
        if command == Command.DMA_UNMAP:
            _, _, address, size = _DMA_UNMAP.unpack_from(payload)
            self._device.unmap_memory(address, size)
            return payload
        _, _, offset, address, size = _DMA_MAP.unpack_from(payload)
        if self._descriptors:  # memory without one could be read by messages: nothing of the NPU's is there
            self._device.map_memory(address, size, self._descriptors.pop(0), offset)
        return b""

    def _set_interrupts(self, payload: bytes) -> None:
        _, flags, index, start, count = _IRQ_SET.unpack_from(payload)
        if index != INTX:
            if count:
                raise OSError(errno.EINVAL, f"interrupt {index}")
            return
        if flags & IrqFlag.TRIGGER:
            if flags & IrqFlag.DATA_EVENTFD and start == 0 and self._descriptors:
                self._device.set_interrupt(self._descriptors.pop(0))
            else:
                self._device.set_interrupt(None)
        elif flags & IrqFlag.UNMASK and not flags & IrqFlag.DATA_EVENTFD:
            self._device.unmask_interrupt()

    def _access(self, command: int, payload: bytes) -> bytes:
        offset, region, count = _ACCESS.unpack_from(payload)
        size = self._device.region_sizes.get(region, 0)
        if offset + count > size:
            raise OSError(errno.EINVAL, f"{count} bytes at {offset:#x} of region {region}, which has {size}")
        if command == Command.REGION_READ:
            return _ACCESS.pack(offset, region, count) + self._device.read(region, offset, count)
        data = payload[_ACCESS.size :]
        if len(data) != count:
            raise OSError(errno.EINVAL, f"{len(data)} bytes, and {count} were announced")
        self._device.write(region, offset, data)
        return _ACCESS.pack(offset, region, 0)

    def _drop_descriptors(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []


def _version(payload: bytes) -> bytes:
    major, minor = _VERSION.unpack_from(payload)
    if major != 0:
        raise OSError(errno.EINVAL, f"protocol {major}.{minor}")
    capabilities = {
        "max_msg_fds": _MOST_DESCRIPTORS, "max_data_xfer_size": _LARGEST_MESSAGE - 4096, "pgsizes": 4096,
    }  # fmt: skip
    return _VERSION.pack(0, min(minor, 1)) + json.dumps({"capabilities": capabilities}).encode() + b"\0"


def _below(index: int, limit: int) -> int:
    if index >= limit:
        raise OSError(errno.EINVAL, f"number {index}")
    return index
