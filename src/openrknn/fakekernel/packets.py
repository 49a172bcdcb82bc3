"""Messages between the server and the engine: a length, a pickled tuple, and perhaps a descriptor beside it."""

from __future__ import annotations

import array
import os
import pickle
import socket
from typing import Any

from openrknn.fakekernel.protocol import LENGTH

__all__ = ["STRICT", "receive_message", "send_message"]

STRICT = "strict"
"""The engine's argument that makes it refuse also what boards are recorded to ignore."""


def send_message(link: socket.socket, message: tuple[object, ...], descriptor: int | None = None) -> None:
    """Send one message; the descriptor stays open here."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    data = LENGTH.pack(len(data)) + data
    if descriptor is None:
        link.sendall(data)
        return
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    sent = link.sendmsg([data], rights)
    link.sendall(data[sent:])


def receive_message(link: socket.socket) -> tuple[tuple[Any, ...], int | None] | None:
    """The next message and its descriptor; None when the other side hung up."""
    head, descriptors, _, _ = socket.recv_fds(link, LENGTH.size, 1)
    if not head:
        return None
    try:
        head += _exactly(link, LENGTH.size - len(head))
        (length,) = LENGTH.unpack(head)
        message: tuple[Any, ...] = pickle.loads(_exactly(link, length))
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise
    for extra in descriptors[1:]:
        os.close(extra)
    return message, descriptors[0] if descriptors else None


def _exactly(link: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = link.recv(length - len(data))
        if not part:
            raise ConnectionResetError("the other side ended inside a message")
        data += part
    return bytes(data)
