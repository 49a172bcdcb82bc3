"""A program that speaks to the engine as the library does, in Python: packets of `openrknn.capi.wire`."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.capi.call import Reply
from openrknn.capi.memory import Memory
from openrknn.capi.structs import Codec
from openrknn.capi.wire import LARGEST_PACKET, REPLY, REQUEST, WIRE_VERSION, Operation
from openrknn.vendor.tables.enums import TensorFormat, TensorType

__all__ = ["Client", "RefusedError"]

_DTYPES = {np.dtype(text): int(TensorType[text.upper()]) for text in (
    "float32", "float16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
)}  # fmt: skip


class RefusedError(Exception):
    """A call returned an error."""

    def __init__(self, operation: Operation, code: int, reason: str) -> None:
        super().__init__(f"{operation.name} returned {code}: {reason}")
        self.code, self.reason = code, reason


class Client:
    """One program with one channel."""

    def __init__(
        self, path: str | Path, *, codec: Codec | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        self.codec = codec or Codec()
        self._results: dict[int, Memory] = {}
        self._channels: list[Client] = []
        version = self.codec.version
        texts = b"".join(f"{name}={value}\0".encode() for name, value in (environment or {}).items())
        number = version.major * 10_000 + version.minor * 100 + version.patch
        self.engine = self.call(
            Operation.HELLO, a=number, b=self.codec.pointer_bytes, c=os.getpid(), d=WIRE_VERSION, payload=texts
        ).value

    def call(self, operation: Operation, **request: Any) -> Reply:
        """A request and its reply; `RefusedError` if the code is negative. Descriptors are ours to close."""
        self.send(operation, **request)
        reply = self.receive()
        if reply.code < 0:
            raise RefusedError(operation, reply.code, reply.reason)
        return reply

    def send(
        self, operation: int, *, context: int = 0, memory: int = 0, a: int = 0, b: int = 0, c: int = 0, d: int = 0,
        payload: bytes = b"", descriptors: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """A request."""
        header = REQUEST.pack(operation, len(payload), context, memory, a, b, c, d)
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self.socket.sendmsg([header, payload], beside)

    def receive(self) -> Reply:
        """A reply, or a callback."""
        data, beside, _, _ = self.socket.recvmsg(LARGEST_PACKET, socket.CMSG_SPACE(16))
        if not data:
            raise ConnectionError("the engine closed the channel")
        code, length, reason, is_callback, value, a, b, c, d = REPLY.unpack_from(data)
        found = array.array("i")
        for _, _, raw in beside:
            found.frombytes(raw)
        payload, text = data[REPLY.size : REPLY.size + length], data[REPLY.size + length :]
        assert len(text) == reason
        return Reply(code, value, a, b, c, d, payload, text.decode(), tuple(found), bool(is_callback))

    def channel(self) -> Client:
        """The same program on a further channel."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.call(Operation.CHANNEL, descriptors=[theirs.fileno()])
        theirs.close()
        made = Client.__new__(Client)
        made.socket, made.codec, made._results, made.engine = ours, self.codec, self._results, self.engine
        made._channels = []
        self._channels.append(made)
        return made

    def close(self) -> None:
        """As the end of the program does it."""
        for channel in self._channels:
            channel.close()
        self.socket.close()

    # -- the functions of the C API ------------------------------------------------------------------------------

    def init(self, model: Path | bytes, flags: int = 0, **extend: Any) -> int:
        """`rknn_init`."""
        data = model if isinstance(model, bytes) else model.read_bytes()
        descriptor = os.memfd_create("model")
        try:
            os.write(descriptor, data)
            payload = self.codec.encode("rknn_init_extend", extend) if extend else b""
            reply = self.call(
                Operation.INIT, a=flags, b=len(data), d=len(data), payload=payload, descriptors=[descriptor]
            )
        finally:
            os.close(descriptor)
        return reply.value

    def destroy(self, context: int) -> None:
        """`rknn_destroy`."""
        self.call(Operation.DESTROY, context=context)

    def inputs_set(
        self, context: int, arrays: Mapping[int, npt.NDArray[Any]], form: int = TensorFormat.NHWC, *,
        pass_through: bool = False,
    ) -> None:  # fmt: skip
        """`rknn_inputs_set`, with a staging memory of its own each time."""
        pieces = [np.ascontiguousarray(value) for value in arrays.values()]
        staging = Memory.create(max(sum(piece.nbytes for piece in pieces), 1))
        payload, offset = b"", 0
        for index, piece in zip(arrays, pieces, strict=True):
            staging.array[offset : offset + piece.nbytes] = piece.reshape(-1).view(np.uint8)
            payload += self.codec.encode("rknn_input", {
                "index": index, "buf": offset, "size": piece.nbytes, "pass_through": int(pass_through),
                "type": _DTYPES[piece.dtype], "fmt": int(form),
            })  # fmt: skip
            offset += piece.nbytes
        try:
            self.call(
                Operation.INPUTS_SET, context=context, a=len(arrays), b=staging.array.nbytes, payload=payload,
                descriptors=[staging.fd],
            )  # fmt: skip
        finally:
            staging.close()

    def run(self, context: int, **extend: int) -> dict[str, Any]:
        """`rknn_run`, with an rknn_run_extend if there is something to say."""
        payload = self.codec.encode("rknn_run_extend", extend) if extend else b""
        reply = self.call(Operation.RUN, context=context, payload=payload)
        return self.codec.decode("rknn_run_extend", reply.payload) if reply.payload else {}

    def wait(self, context: int, **extend: int) -> dict[str, Any]:
        """`rknn_wait`."""
        payload = self.codec.encode("rknn_run_extend", extend)
        reply = self.call(Operation.WAIT, context=context, payload=payload)
        return self.codec.decode("rknn_run_extend", reply.payload)

    def outputs_get(self, context: int, count: int, *, want_float: bool = False) -> list[bytes]:
        """`rknn_outputs_get`: the bytes of each output."""
        return self.outputs_with_frame(context, count, want_float=want_float)[0]

    def outputs_with_frame(self, context: int, count: int, *, want_float: bool = False) -> tuple[list[bytes], int]:
        """The same, with the number of the run that they belong to."""
        entries = [{"index": index, "want_float": int(want_float)} for index in range(count)]
        payload = b"".join(self.codec.encode("rknn_output", entry) for entry in entries)
        reply = self.call(Operation.OUTPUTS_GET, context=context, a=count, b=1, payload=payload)
        if reply.descriptors:
            self._results[context] = Memory(reply.descriptors[0], reply.a)
        found = self.codec.decode_array("rknn_output", reply.payload, count)
        area = self._results[context].array
        extend = self.codec.decode("rknn_output_extend", reply.payload, count * self.codec.size("rknn_output"))
        return [area[one["buf"] : one["buf"] + one["size"]].tobytes() for one in found], extend["frame_id"]

    def create_mem(self, context: int, size_bytes: int) -> tuple[int, Memory]:
        """`rknn_create_mem`: its number, and the memory as the program sees it."""
        reply = self.call(Operation.CREATE_MEM, context=context, a=size_bytes)
        return reply.value, Memory(reply.descriptors[0], reply.a)

    def set_io_mem(self, context: int, number: int, memory: Memory, offset: int = 0, **attr: Any) -> None:
        """`rknn_set_io_mem`."""
        payload = self.codec.encode("rknn_tensor_attr", attr)
        self.call(
            Operation.SET_IO_MEM, context=context, memory=number, a=offset, b=memory.array.nbytes, payload=payload
        )
