"""One socket of a program: requests come in, replies go out, one after the other."""

from __future__ import annotations

import array
import contextlib
import os
import socket

from openrknn.capi.call import OK, Call, CallError, Code, Reply, code_of
from openrknn.capi.client import Client
from openrknn.capi.handlers import HANDLERS, Handler
from openrknn.capi.wire import LARGEST_PACKET, MOST_DESCRIPTORS, REPLY, REQUEST, Operation

_OPERATIONS: dict[int, Operation] = {int(operation): operation for operation in Operation}
_HEADER = REQUEST.size
_ROOM = socket.CMSG_SPACE(MOST_DESCRIPTORS * 4)
_LONGEST_REASON = 16_000
_DONE = REPLY.pack(0, 0, 0, 0, 0, 0, 0, 0, 0)
_NO_DESCRIPTORS: list[int] = []


class SocketChannel:
    """Serves one socket until the other side closes it."""

    def __init__(self, program: Client, connection: socket.socket) -> None:
        self._program, self._socket = program, connection
        self._buffer = bytearray(LARGEST_PACKET)

    def serve(self) -> None:
        """Answer until the end. No request can end it, and no error."""
        try:
            while self._answer_one():
                pass
        except OSError:
            pass  # the program is gone
        finally:
            self._socket.close()

    def call_back(self, reply: Reply) -> int:
        """Have the library call a function of the program; what it returned.

        The current request has been read out of the buffer by then, so the buffer is free.
        """
        self._send(reply)
        size, descriptors = self._receive()
        _close(descriptors)
        if size < _HEADER:
            raise CallError(Code.FAIL, "the program went away during a callback")
        operation, _, _, _, returned, *_ = REQUEST.unpack_from(self._buffer)
        if operation != Operation.CALLBACK_DONE:
            raise CallError(Code.FAIL, f"operation {operation} came in the middle of a callback")
        return int(returned)

    def _answer_one(self) -> bool:
        size, descriptors = self._receive()
        if not size:
            _close(descriptors)
            return False
        reply = self._answer(size, descriptors)
        if reply is OK:
            self._socket.send(_DONE)
        else:
            self._send(reply)
        return True

    def _receive(self) -> tuple[int, list[int]]:
        size, beside, _, _ = self._socket.recvmsg_into([self._buffer], _ROOM, socket.MSG_CMSG_CLOEXEC)
        return size, _descriptors(beside) if beside else _NO_DESCRIPTORS

    def _answer(self, size: int, descriptors: list[int]) -> Reply:
        if size < _HEADER:
            _close(descriptors)
            return _refusal(Code.PARAM_INVALID, f"a request of {size} bytes is none")
        number, length, context, memory, a, b, c, d = REQUEST.unpack_from(self._buffer)
        operation = _OPERATIONS.get(number)
        handler = _handler(operation) if operation is not None else None
        if operation is None or handler is None or length != size - _HEADER:
            _close(descriptors)
            return _refusal(Code.FAIL, _not_possible(number, operation, length, size))
        payload = bytes(self._buffer[_HEADER:size]) if length else b""
        call = Call(operation, context, memory, a, b, c, d, payload, descriptors, self)
        try:
            return handler(self._program, call)
        except Exception as error:  # noqa: BLE001 - whatever it is, the program gets a code and the channel goes on
            return _refusal(*code_of(error, operation))
        finally:
            if descriptors:
                _close(descriptors)

    def _send(self, reply: Reply) -> None:
        reason = reply.reason.encode("utf-8", "replace")[:_LONGEST_REASON]
        if REPLY.size + len(reply.payload) + len(reason) > LARGEST_PACKET:
            reply, reason = _refusal(Code.FAIL, ""), b"the answer is larger than a packet"
        header = REPLY.pack(
            reply.code, len(reply.payload), len(reason), reply.is_callback, reply.value, reply.a, reply.b, reply.c,
            reply.d,
        )  # fmt: skip
        beside = []
        if reply.descriptors:
            beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", reply.descriptors))]
        self._socket.sendmsg([header, reply.payload, reason], beside)


def _handler(operation: Operation) -> Handler | None:
    """Who answers; most are there from the beginning."""
    if operation not in HANDLERS:
        from openrknn.capi.calls import load_for  # here: handlers see channels, not the other way round

        load_for(operation)
    return HANDLERS.get(operation)


def _refusal(code: Code, reason: str) -> Reply:
    return Reply(code=int(code), reason=reason)


def _not_possible(number: int, operation: Operation | None, length: int, size: int) -> str:
    if operation is None:
        return f"operation {number} is not known: is the library of another version of openrknn?"
    if length != size - _HEADER:
        return f"{operation.name} announced {length} bytes, and {size - _HEADER} came"
    return f"{operation.name} has no answer in this version of openrknn"


def _descriptors(beside: list[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in beside:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) // found.itemsize * found.itemsize])
    return list(found)


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
