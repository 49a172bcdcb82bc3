"""A program's side of the emulated kernel in Python: what the preload library does, without the library."""

from __future__ import annotations

import array
import errno
import mmap
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pytest

from openrknn.fakekernel.protocol import LENGTH, NOT_INHERITED, REPLY, REQUEST, Op
from openrknn.uapi.ioctl import Ioctl


@dataclass
class Answer:
    """What an ioctl gave back."""

    values: dict[str, int]
    descriptor: int
    texts: list[bytes]


class RefusedError(OSError):
    """An ioctl failed; `values` is the argument as it came back."""

    def __init__(self, code: int, values: dict[str, int]) -> None:
        super().__init__(code, os.strerror(code))
        self.values = values


@contextmanager
def refused(code: int) -> Iterator[None]:
    """An ioctl in here must fail with this errno."""
    with pytest.raises(RefusedError) as caught:
        yield
    assert errno.errorcode[caught.value.errno or 0] == errno.errorcode[code]


class Client:
    """One connection."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.connect(str(folder / "socket"))

    def open(self, path: str, flags: int = os.O_RDWR) -> File:
        nodes = [line.split() for line in (self._folder / "paths").read_text().splitlines() if line.startswith("node ")]
        number = [words[-1] for words in nodes].index(path)
        result, _, value, descriptor = self.call(Op.OPEN, a=number, b=flags)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return File(self, descriptor, value)

    def call(
        self, op: int, key: int = 0, *, a: int = 0, b: int = 0, payload: bytes = b"", descriptor: int = -1
    ) -> tuple[int, bytes, int, int]:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))] if descriptor >= 0 else []
        self.connection.sendmsg([REQUEST.pack(op, len(payload), key, a, b) + payload], rights)
        data, descriptors, _, _ = socket.recv_fds(self.connection, 1 << 20, 1)
        if not data:
            raise ConnectionResetError("the server hung up")
        result, length, value = REPLY.unpack_from(data)
        while len(data) < REPLY.size + length:
            data += self.connection.recv(1 << 20)
        return result, data[REPLY.size :], value, descriptors[0] if descriptors else -1

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class File:
    """An open node."""

    def __init__(self, client: Client, descriptor: int, value: int) -> None:
        self.client = client
        self.descriptor = descriptor
        self.value = value
        self.key = os.fstat(descriptor).st_ino

    def ioctl(self, ioctl: Ioctl, **values: int) -> Answer:
        """Call it with these values; "descriptor" is handed in beside them."""
        return self.send(ioctl, values, descriptor=values.pop("descriptor", -1))

    def send(
        self,
        ioctl: Ioctl,
        values: dict[str, int],
        *,
        blocks: bytes = b"",
        request: int | None = None,
        descriptor: int = -1,
    ) -> Answer:
        """The same with arrays behind its pointers, or with another request code, as older and newer programs have."""
        request = ioctl.request if request is None else request
        size = request >> 16 & 0x3FFF
        data = ioctl.pack(values)[:size].ljust(size, b"\0") + blocks
        result, payload, _, received = self.client.call(
            Op.IOCTL, self.key, a=request, payload=data, descriptor=descriptor
        )
        after = ioctl.argument.unpack(payload[:size]) if payload else dict(values)
        if result < 0:
            raise RefusedError(-result, after)
        return Answer(after, received, _texts(payload[size:]))

    def map(self, offset: int, size: int) -> mmap.mmap:
        result, _, start, descriptor = self.client.call(Op.MMAP, self.key, a=offset, b=size)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        try:
            return mmap.mmap(descriptor, size, offset=start & ~NOT_INHERITED)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        os.close(self.descriptor)


def _texts(data: bytes) -> list[bytes]:
    texts = []
    while data:
        (length,) = LENGTH.unpack_from(data)
        texts.append(data[4 : 4 + length])
        data = data[4 + length :]
    return texts


def block(data: bytes) -> bytes:
    """An array as the preload library appends it."""
    return LENGTH.pack(len(data)) + data


def words(*numbers: int) -> bytes:
    """32-bit words."""
    return struct.pack(f"<{len(numbers)}I", *numbers)
