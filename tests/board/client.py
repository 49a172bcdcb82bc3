"""A client of vfio-user for the tests: what QEMU does, without QEMU."""

from __future__ import annotations

import os
import socket
import struct
import threading

from openrknn.board.vfio_user import HEADER, Command, DeviceServer, IrqFlag, MessageFlag, PciDevice

_ACCESS = struct.Struct("<QII")


class RefusedError(OSError):
    """The server's reply is an error."""


class Client:
    """One connection to a device that a thread serves."""

    def __init__(self, device: PciDevice) -> None:
        self.connection, theirs = socket.socketpair()
        self._number = 0
        self.thread = threading.Thread(target=DeviceServer(theirs, device).serve, daemon=True)
        self.thread.start()

    def call(self, command: int, payload: bytes = b"", descriptors: tuple[int, ...] = (), flags: int = 0) -> bytes:
        self._number += 1
        header = HEADER.pack(self._number, command, HEADER.size + len(payload), flags, 0)
        socket.send_fds(self.connection, [header + payload], descriptors)
        if flags & MessageFlag.NO_REPLY:
            return b""
        number, replied, size, answer, error = HEADER.unpack(self._receive(HEADER.size))
        assert (number, replied) == (self._number, command)
        data = self._receive(size - HEADER.size)
        if answer & MessageFlag.ERROR:
            raise RefusedError(error, os.strerror(error))
        assert answer == MessageFlag.REPLY
        return data

    def read(self, offset: int, size: int = 4, region: int = 0) -> int:
        data = self.call(Command.REGION_READ, _ACCESS.pack(offset, region, size))
        assert _ACCESS.unpack_from(data) == (offset, region, size)
        return int.from_bytes(data[_ACCESS.size :], "little")

    def write(self, offset: int, value: int, size: int = 4, region: int = 0) -> None:
        payload = _ACCESS.pack(offset, region, size) + value.to_bytes(size, "little")
        assert _ACCESS.unpack(self.call(Command.REGION_WRITE, payload)) == (offset, region, 0)

    def map_memory(self, address: int, size: int, descriptor: int) -> None:
        self.call(Command.DMA_MAP, struct.pack("<IIQQQ", 32, 3, 0, address, size), (descriptor,))

    def set_interrupt(self, descriptor: int) -> None:
        flags = IrqFlag.DATA_EVENTFD | IrqFlag.TRIGGER
        self.call(Command.DEVICE_SET_IRQS, struct.pack("<IIIII", 20, flags, 0, 0, 1), (descriptor,))

    def unmask(self) -> None:
        self.call(Command.DEVICE_SET_IRQS, struct.pack("<IIIII", 20, IrqFlag.DATA_NONE | IrqFlag.UNMASK, 0, 0, 1))

    def close(self) -> None:
        self.connection.close()
        self.thread.join(10)
        assert not self.thread.is_alive()

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.connection.recv(size - len(data))
            if not part:
                raise ConnectionResetError("the server hung up")
            data += part
        return data
