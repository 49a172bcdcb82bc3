"""`openrknn-gst-engine`: runs a model for a GStreamer element, which starts it and ends it.

The element (native/gstreamer/engine.c) speaks to it over a socket, as `openrknn.gstreamer.wire` says. It ends when the
element closes the socket, or with the program.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any

from openrknn.errors import FormatError, RknnError
from openrknn.gstreamer.buffers import Mappings, frame_of, part_of
from openrknn.gstreamer.options import open_pipeline
from openrknn.gstreamer.records import packed
from openrknn.gstreamer.wire import ENGINE_NAME, LARGEST_PACKET, MOST_DESCRIPTORS, STRUCTS, WIRE_VERSION, Operation
from openrknn.vision.pipeline import Pipeline

__all__ = ["Engine", "main"]

_REQUEST, _REPLY = STRUCTS["request"], STRUCTS["reply"]
_LOG = logging.getLogger(__name__)


class Engine:
    """Answers what comes over a socket until its other end is closed."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._pipeline: Pipeline | None = None
        self._mappings = Mappings()

    def serve(self) -> None:
        """Returns when the other side has closed the socket."""
        try:
            while self._serve_one():
                pass
        finally:
            self._mappings.clear()
            if self._pipeline is not None:
                self._pipeline.close()

    def _serve_one(self) -> bool:
        try:
            packet, descriptors, *_ = socket.recv_fds(
                self._connection, LARGEST_PACKET, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionError:
            return False
        if not packet:
            return False
        number = 0
        try:
            operation, number, payload = _request(packet)
            code, parts = 0, self._answer(operation, number, payload, descriptors)
        except Exception as error:  # noqa: BLE001 - the client gets it as a reply
            code, parts = -1, [_words(error).encode(errors="replace")]
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return self._reply(code, number, b"".join(parts))

    def _answer(self, operation: int, number: int, payload: memoryview, descriptors: Sequence[int]) -> list[bytes]:
        match operation:
            case Operation.OPEN:
                return [self._open(payload)]
            case Operation.FRAME:
                return self._frame(payload, descriptors, number)
            case _:
                raise FormatError(f"there is no operation {operation}")

    def _open(self, payload: memoryview) -> bytes:
        options = dict(word.split("=", 1) for word in bytes(payload).decode().split("\0")[:-1])
        self._mappings.clear()
        if self._pipeline is not None:
            self._pipeline.close()
            self._pipeline = None
        try:
            pipeline = self._pipeline = open_pipeline(options)
        except Exception as error:
            raise FormatError(f"{options.get('model', 'model')}: {_words(error)}") from error
        summary = f"{pipeline.family.about} on {pipeline.device}, {pipeline.frame.width}x{pipeline.frame.height}"
        return "\n".join((summary, *pipeline.notes)).encode()

    def _frame(self, payload: memoryview, descriptors: Sequence[int], number: int) -> list[bytes]:
        if self._pipeline is None:
            raise FormatError("a frame came before the model")
        frame, regions = frame_of(payload, descriptors, self._mappings, number)
        with frame:
            if not regions:
                return packed(self._pipeline(frame), -1, (0, 0), (frame.width, frame.height))
            parts: list[bytes] = []
            for place, region in enumerate(regions):
                found = part_of(frame, region)
                if found is not None:
                    part, (left, top, width, height) = found
                    parts += packed(self._pipeline(part), place, (left, top), (width, height))
            return parts

    def _reply(self, code: int, number: int, payload: bytes) -> bool:
        is_large = len(payload) > LARGEST_PACKET - _REPLY.size
        head = _REPLY.pack(code, is_large, number, len(payload))
        try:
            if not is_large:
                self._connection.sendall(head + payload)
                return True
            memory = os.memfd_create(ENGINE_NAME, os.MFD_CLOEXEC)
            try:
                with os.fdopen(os.dup(memory), "wb") as file:
                    file.write(payload)
                socket.send_fds(self._connection, [head], [memory])
            finally:
                os.close(memory)
        except ConnectionError:
            return False
        return True


def _words(error: Exception) -> str:
    """The error message for the user."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) if isinstance(error, RknnError | ValueError) else f"{type(error).__name__}: {error}"


def _request(packet: bytes) -> tuple[int, int, memoryview]:
    if len(packet) < _REQUEST.size:
        raise FormatError("a request is cut short")
    version, operation, number, size, _ = _REQUEST.unpack_from(packet)
    if version != WIRE_VERSION:
        raise FormatError(
            "libgstopenrknn.so was built by another version of openrknn; build it again: openrknn library --gstreamer"
        )
    payload = memoryview(packet)[_REQUEST.size :]
    if len(payload) != size:
        raise FormatError("a request is cut short")
    return operation, number, payload


def main(words: Sequence[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(prog=ENGINE_NAME, description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--socket", type=int, required=True, help="the open socket to the parent process")
    given: Any = parser.parse_args(words)
    logging.basicConfig(format=f"{ENGINE_NAME}: %(message)s")
    # Ctrl-C in a terminal is for the program, which ends the pipeline, which ends this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=given.socket) as connection:
        Engine(connection).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
