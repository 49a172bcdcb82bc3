"""Requests in, replies out: the stream between a preload library and the server."""

from __future__ import annotations

import array
import os
import socket
from typing import NamedTuple

from openrknn.fakekernel.protocol import MAX_PAYLOAD, REPLY, REQUEST

__all__ = ["Reply", "Request", "receive", "send"]

_RIGHTS_SPACE = socket.CMSG_SPACE(4)


class Reply(NamedTuple):
    """What goes back. The server's copy of the descriptor is closed once it is sent."""

    result: int = 0
    payload: bytes = b""
    value: int = 0
    descriptor: int = -1


class Request(NamedTuple):
    """What came."""

    head: tuple[int, ...]
    payload: memoryview
    descriptor: int


def receive(connection: socket.socket, buffer: bytearray) -> Request | None:
    """The next request; None when the program hung up. The payload lives until the next call."""
    size, rights, _, _ = connection.recvmsg_into([buffer], _RIGHTS_SPACE)
    if not size:
        return None
    descriptor = _descriptor(rights) if rights else -1
    try:
        head, end = _rest(connection, buffer, size)
    except BaseException:
        if descriptor >= 0:
            os.close(descriptor)
        raise
    return Request(head, memoryview(buffer)[REQUEST.size : end], descriptor)


def _rest(connection: socket.socket, buffer: bytearray, size: int) -> tuple[tuple[int, ...], int]:
    """The header of a request of which `size` bytes are there, and its end in the buffer."""
    while size < REQUEST.size:
        size += _more(connection, memoryview(buffer)[size:])
    head = REQUEST.unpack_from(buffer)
    end = REQUEST.size + head[1]
    if head[1] > MAX_PAYLOAD:
        raise ConnectionResetError("a request that is too long")
    while size < end:
        if size == len(buffer):  # no more room than what came: who announces much need not send it
            buffer.extend(bytes(min(end, 2 * size) - size))
        size += _more(connection, memoryview(buffer)[size:end])
    return head, end


def send(connection: socket.socket, reply: Reply) -> None:
    """Send a reply, with its descriptor if it has one."""
    data = REPLY.pack(reply.result, len(reply.payload), reply.value) + reply.payload
    if reply.descriptor < 0:
        connection.sendall(data)
        return
    try:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [reply.descriptor]))]
        sent = connection.sendmsg([data], rights)
        connection.sendall(data[sent:])
    finally:
        os.close(reply.descriptor)


def _descriptor(rights: list[tuple[int, int, bytes]]) -> int:
    numbers = array.array("i")
    for level, kind, data in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(data[: len(data) // 4 * 4])
    for extra in numbers[1:]:
        os.close(extra)
    return numbers[0] if numbers else -1


def _more(connection: socket.socket, into: memoryview) -> int:
    size = connection.recv_into(into)
    if not size:
        raise ConnectionResetError("the program ended inside a request")
    return size
