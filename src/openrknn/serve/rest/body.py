"""Bodies from the network: never more bytes than allowed, never longer than allowed."""

from __future__ import annotations

import asyncio
import zlib

from starlette.requests import Request

from openrknn.serve.errors import BadRequestError, MediaError, SlowError, TooLargeError
from openrknn.serve.plane.budget import Share
from openrknn.serve.plane.clients import client_key
from openrknn.serve.settings import Limits
from openrknn.serve.timeouts import timeout

__all__ = ["PLANE", "SHARE", "ClientGoneError", "compress", "read_body"]

_ENCODINGS = {"gzip", "deflate"}
_SLOW_WORK_BYTES, _SLOW_ZIP_BYTES = 65536, 4096
"""From here on compressing and decompressing would hold other requests up; it goes into a thread."""
_BULK_BYTES = 1 << 20
"""From here on a body takes turns with others."""
_MOST_UNFOLDED = 64
"""Times its size is what a compressed body may well become."""
_STEP_BYTES = 256 * 1024
_FAST = 1
_GZIP, _ZLIB, _EITHER = 16 + zlib.MAX_WBITS, zlib.MAX_WBITS, 32 + zlib.MAX_WBITS


class ClientGoneError(Exception):
    """The client has closed the connection: no answer is sent."""


def declared_length(request: Request) -> int | None:
    """Content-Length; None where the body comes in chunks."""
    text = request.headers.get("content-length")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadRequestError("Content-Length is not a number")
    return int(text)


SHARE, PLANE = "openrknn.share", "openrknn.plane"
"""In the ASGI scope: the request's share of the memory, which is released when the answer is sent; and the plane."""


async def read_body(request: Request, limits: Limits, most_bytes: int | None = None) -> bytes:
    """The whole body, decompressed; the request's share holds as many bytes."""
    share: Share = request.scope[SHARE]
    most = min(limits.body_bytes, most_bytes or limits.body_bytes)
    length = declared_length(request)
    if length is not None and length > most:
        raise TooLargeError(f"the body has {length} bytes; at most {most} are accepted here")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in _ENCODINGS | {"identity", ""}:
        raise MediaError(f"Content-Encoding {encoding[:40]!r} is unknown; the choices are gzip and deflate")
    before = share.size_bytes
    if length is not None:
        share.grow(2 * length)  # the parts and the whole exist at the same time
    try:
        async with timeout(limits.body_seconds):
            body = await _receive(request, length, most, share)
    except TimeoutError:
        raise SlowError(f"the body did not arrive within {limits.body_seconds:g} s") from None
    if encoding in _ENCODINGS:
        if len(body) < _SLOW_ZIP_BYTES:
            body = _decompressed(body, most, share)
        else:
            pool = request.scope[PLANE].throttled
            packed = body
            body = await pool.run(_MOST_UNFOLDED * len(packed), lambda: _decompressed(packed, most, share))
            del packed
    share.shrink(share.size_bytes - before - len(body))
    return body


async def _receive(request: Request, length: int | None, most: int, share: Share) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > most:
            raise TooLargeError(f"the body has more than {most} bytes; no more are accepted here")
        if size > _BULK_BYTES:
            await request.scope[PLANE].pacer.turn(client_key(request.client.host if request.client else ""))
        if part:
            if length is None:
                share.grow(2 * len(part))
            parts.append(part)
        if not message.get("more_body", False):
            break
    if length is not None and size != length:
        raise BadRequestError(f"the body has {size} bytes, and Content-Length says {length}")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompressed(body: bytes | bytearray, most: int, share: Share) -> bytes:
    """A few bytes can stand for gigabytes: it unfolds in steps, each is asked for first, and it stops at the limit."""
    machine = zlib.decompressobj(_EITHER)
    parts: list[bytes] = []
    size, left = 0, bytes(body)
    try:
        while not machine.eof and size <= most:
            share.grow(2 * _STEP_BYTES)
            part = machine.decompress(left, _STEP_BYTES)
            left = machine.unconsumed_tail
            if not part and not left:
                break
            size += len(part)
            parts.append(part)
    except zlib.error as error:
        raise BadRequestError(f"the compressed body is damaged: {error}") from None
    if size > most:
        raise TooLargeError(f"the body has more than {most} bytes when decompressed; no more are accepted here")
    if not machine.eof:
        raise BadRequestError("the compressed body ends too early")
    if machine.unused_data:
        raise BadRequestError("there is something behind the compressed body")
    return b"".join(parts)


async def compress(body: bytes, accepted: str, *, is_binary: bool) -> tuple[bytes, str | None]:
    """The body as the client wants it, and the name of its encoding.

    HTTP libraries say `gzip, deflate` by themselves. Tensors hardly shrink and compressing them takes longer than most
    models do, so they are compressed only for a client that asks for exactly one encoding.
    """
    wanted = [part.partition(";")[0].strip().lower() for part in accepted.split(",")]
    known = [name for name in wanted if name in _ENCODINGS]
    if not known or (is_binary and len(wanted) > 1) or len(body) < 512:
        return body, None
    name = known[0]
    if len(body) < _SLOW_WORK_BYTES:
        return _compressed(body, name), name
    return await asyncio.to_thread(_compressed, body, name), name


def _compressed(body: bytes, name: str) -> bytes:
    machine = zlib.compressobj(_FAST, zlib.DEFLATED, _GZIP if name == "gzip" else _ZLIB)
    return machine.compress(body) + machine.flush()
