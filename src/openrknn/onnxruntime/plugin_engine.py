"""`openrknn-ort-engine`: compiles and runs parts for a program that is not Python and has loaded our provider.

The provider (native/ortprovider/engine.c) starts it and speaks to it over a socket: one request at a time, each a head
and its content, and so are the answers. It ends when the program does.
"""

from __future__ import annotations

import argparse
import logging
import socket
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from openrknn.compiler.float_model import onnx_package
from openrknn.errors import FormatError, RknnError
from openrknn.onnxruntime.plugin_parts import Book

_REQUEST = struct.Struct("=IIqQ")
_ANSWER = struct.Struct("=qQ")
_TENSOR = struct.Struct("=iIQ")
_MARK = 0x4E4B5235
_CALLS = {1: "open", 2: "plan", 3: "build", 4: "run", 5: "drop", 6: "close"}
_MOST_BYTES = 2**33
_MOST_RANK = 64
_LOG = logging.getLogger(__name__)


class Engine:
    """Answers what comes over a socket until it ends."""

    def __init__(self, connection: socket.socket, first: int = 1) -> None:
        self._connection = connection
        self.book = Book(first)

    def serve(self) -> None:
        """Returns when the other side has closed the socket."""
        while True:
            try:
                mark, call, number, size = _REQUEST.unpack(self._read(_REQUEST.size))
                if mark != _MARK or size > _MOST_BYTES:
                    _LOG.error("the program at the other end does not speak our language")
                    return
                content = self._read(size)
            except EOFError:
                return
            try:
                result, back = self._answer(call, number, content)
            except Exception as error:  # noqa: BLE001 - the client gets it as a reply
                text = str(error) if isinstance(error, RknnError) else f"{type(error).__name__}: {error}"
                result, back = -1, [text.encode(errors="replace")]
            try:
                self._connection.sendall(_ANSWER.pack(result, sum(len(one) for one in back)))
                for one in back:
                    self._connection.sendall(one)
            except OSError:
                return

    def _answer(self, call: int, number: int, content: bytearray) -> tuple[int, list[Any]]:
        match _CALLS.get(call):
            case "open":
                words = content.decode(errors="replace").split("\0")[:-1]
                return self.book.open(dict(zip(words[::2], words[1::2], strict=True))), []
            case "plan":
                return 0, [np.array(self.book.plan(number, bytes(content)), np.int32).tobytes()]
            case "build":
                return self.book.build(number, bytes(content)), []
            case "run":
                return 0, _packed(self.book.run(number, _arrays(content)))
            case "drop":
                self.book.drop(number)
            case "close":
                self.book.close(number)
            case _:
                raise FormatError(f"there is no call {call}")
        return 0, []

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self._connection.recv_into(view, min(len(view), 2**30))
            if not count:
                raise EOFError
            view = view[count:]
        return data


def _arrays(content: bytearray) -> list[Any]:
    arrays = []
    at = 0
    while at < len(content):
        if len(content) - at < _TENSOR.size:
            raise FormatError("a tensor is cut short")
        kind, rank, size = _TENSOR.unpack_from(content, at)
        at += _TENSOR.size
        if rank > _MOST_RANK or rank * 8 + size > len(content) - at:
            raise FormatError("a tensor is cut short")
        shape = struct.unpack_from(f"={rank}q", content, at)
        at += rank * 8
        dtype = onnx_package().helper.tensor_dtype_to_np_dtype(kind)
        arrays.append(np.frombuffer(memoryview(content)[at : at + size], dtype).reshape(shape))
        at += size
    return arrays


def _packed(arrays: Sequence[Any]) -> list[Any]:
    packed: list[Any] = []
    for array in arrays:
        kind = onnx_package().helper.np_dtype_to_tensor_dtype(array.dtype)
        packed += [_TENSOR.pack(kind, array.ndim, array.nbytes), struct.pack(f"={array.ndim}q", *array.shape)]
        packed.append(array.tobytes())
    return packed


def main(words: Sequence[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog="openrknn-ort-engine", description=__doc__.partition("\n")[0])
    parser.add_argument("--socket", type=int, required=True, help="the open socket to the parent process")
    parser.add_argument("--first", type=int, default=0, help="the number before the first one that it gives")
    given = parser.parse_args(words)
    logging.basicConfig(format="openrknn-ort-engine: %(message)s")
    with socket.socket(fileno=given.socket) as connection:
        Engine(connection, given.first + 1).serve()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
