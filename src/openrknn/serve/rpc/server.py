"""`RpcServer`: the calls of gRPC, with their limits and their token."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from openrknn.protoschema import Method
from openrknn.serve.errors import BadRequestError, ServeError, SlowError, TooLargeError, UnauthorizedError
from openrknn.serve.logs import one_line
from openrknn.serve.plane.budget import Share
from openrknn.serve.plane.clients import client_key
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rpc.admission_proxy import AdmissionProxy, private_folder
from openrknn.serve.rpc.call import Call
from openrknn.serve.rpc.health import Health
from openrknn.serve.rpc.messages import health, inference
from openrknn.serve.rpc.parse_memory import parse_memory, parse_memory_of_load
from openrknn.serve.rpc.service import Service
from openrknn.serve.rpc.streams import Streams
from openrknn.serve.timeouts import timeout

__all__ = ["RpcServer"]

_LOG = logging.getLogger("openrknn.serve.access")
_OPEN_CALLS = frozenset({"ServerLive", "ServerReady", "Check", "Watch"})
"""What needs no token: probes of a cluster have none."""
_BAD = frozenset({"INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED"})
"""Sent only to faulty or malicious clients."""
_QUIET_CALLS = _OPEN_CALLS | {"ModelReady"}
_WITH_TENSORS = frozenset({"ModelInfer", "ModelStreamInfer"})
_WITH_FILES = "RepositoryModelLoad"
_CALLS_PER_STREAM = 4
"""Of one connection: short calls have room beside all the streams there may be."""
_CALLS_PER_CONNECTION = 128
_SMALL_MESSAGE = 65536
"""Of calls without tensors."""
_LONG_MESSAGE = 1 << 20
"""Reading a longer one would hold others up."""


class RpcServer:
    """gRPC on the loop that runs.

    Every call is registered as a stream of raw messages, whatever it is for clients: so the token is checked before a
    message is read, memory is asked for before it is parsed, and a damaged one is an answer and no traceback.
    """

    def __init__(self, plane: Plane) -> None:
        self._plane, self._settings = plane, plane.settings
        limits = self._settings.limits
        self._streams = Streams(limits.streams, limits.client_streams)
        self._proxy = AdmissionProxy(private_folder(), limits, plane)
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", limits.body_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", min(_CALLS_PER_CONNECTION, _CALLS_PER_STREAM * limits.streams)),
                ("grpc.so_reuseport", 0),
                # A client that is gone without a word is noticed.
                ("grpc.keepalive_time_ms", 60_000),
                ("grpc.keepalive_timeout_ms", 20_000),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ],
        )
        service, watcher = Service(plane), Health(plane)
        self._server.add_generic_rpc_handlers(
            (
                self._handlers("inference.GRPCInferenceService", inference().methods("GRPCInferenceService"), service),
                self._handlers("grpc.health.v1.Health", health().methods("Health"), watcher),
            )
        )

    async def start(self, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Listen."""
        self._server.add_insecure_port(f"unix:{self._proxy.target}")
        await self._server.start()
        await self._proxy.start(listener, tls)

    async def stop(self, grace_seconds: float) -> None:
        """Take nothing more; wait for what was taken."""
        self._proxy.stop_listening()
        self._streams.close()
        until = time.monotonic() + grace_seconds
        await self._proxy.leave(grace_seconds)
        await self._server.stop(max(0.0, until - time.monotonic()))
        self._proxy.close()

    # -- calls ---------------------------------------------------------------------------------------------------

    def _handlers(self, service: str, methods: list[Method], target: object) -> Any:
        handlers = {
            method.name: grpc.stream_stream_rpc_method_handler(self._handler(method, getattr(target, method.name)))
            for method in methods
        }
        return grpc.method_handlers_generic_handler(service, handlers)

    def _handler(self, method: Method, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
        async def handle(_: AsyncIterator[bytes], context: Any) -> None:
            started, code, text = time.perf_counter(), "OK", ""
            call = Call(_headers(context), context.time_remaining(), self._plane.budget.open(), self._parser(method))
            try:
                self._check_token(method.name, context)
                self._check_rate(method.name, context)
                with call.share:
                    await self._answer(method, function, _Arriving(context, self._proxy), call, context)
            except ServeError as error:
                code, text = error.code, str(error)
            except asyncio.CancelledError:
                code = "CANCELLED"
                raise
            finally:
                self._log(method.name, code, started, context, call)
            if code in _BAD and method.name not in _OPEN_CALLS:
                self._plane.pacer.refused(client_key(_host(self._proxy.client(context.peer()))))
            if code != "OK":
                # gRPC keeps the error that this raises in a circle of references. Raised inside `except` it would keep
                # the message with it, until somebody collects garbage.
                await context.abort(getattr(grpc.StatusCode, code), text)

        return handle

    async def _answer(
        self, method: Method, function: Callable[..., Any], messages: AsyncIterator[bytes], call: Call, context: Any
    ) -> None:
        """Writing waits until the client takes it; the memory of an answer counts until then."""
        if not method.streams_responses:
            if method.name in _WITH_TENSORS:
                await self._check_size(context)
            await context.write(_encode(await function(await self._only(messages, call), call)))
            for done in call.after:
                done()
            return
        with self._streams.place(client_key(_host(self._proxy.client(context.peer())))) as call.stream:
            if method.name in _WITH_TENSORS:
                await self._check_size(context)
            given = messages if method.streams_requests else await self._only(messages, call)
            async for answer in function(given, call):
                await context.write(_encode(answer))
            call.stream.check()

    async def _check_size(self, context: Any) -> None:
        """What no model can need is not read at all."""
        size, most = await self._proxy.announced(context.peer()), self._plane.largest_message()
        if size > most:
            raise TooLargeError(f"the message has {size} bytes; no model here can need more than {most}")

    async def _only(self, messages: AsyncIterator[bytes], call: Call) -> Any:
        try:
            async with timeout(self._settings.limits.body_seconds):
                raw = await anext(messages, None)
        except TimeoutError:
            raise SlowError("the message did not arrive in time") from None
        if raw is None:
            raise BadRequestError("the call has no message")
        if len(raw) > _LONG_MESSAGE:
            held = 2 * len(raw) + _SMALL_MESSAGE  # now, so that nobody takes it meanwhile
            call.share.grow(held)
            request = await self._plane.throttled.run(len(raw), lambda: call.parse(raw, call.share, held))
        else:
            request = call.parse(raw, call.share)
        call.model = getattr(request, "model_name", "")[:128]
        return request

    @staticmethod
    def _parser(method: Method) -> Callable[..., Any]:
        has_tensors, has_files = method.name in _WITH_TENSORS, method.name == _WITH_FILES

        def parse(raw: bytes, share: Share, held_bytes: int = 0) -> Any:
            if not has_tensors and not has_files and len(raw) > _SMALL_MESSAGE:
                raise TooLargeError(f"the message has {len(raw)} bytes; {method.name} takes {_SMALL_MESSAGE}")
            needed = len(raw) + (parse_memory_of_load(raw) if has_files else parse_memory(raw, has_tensors=has_tensors))
            share.grow(max(0, needed - held_bytes))
            try:
                return method.request.FromString(raw)
            except Exception:  # noqa: BLE001 - protobuf's error differs between its versions
                raise BadRequestError(f"the message is not a {method.request.DESCRIPTOR.name}") from None

        return parse

    def _check_token(self, name: str, context: Any) -> None:
        tokens = self._plane.tokens
        if tokens.current is None or name in _OPEN_CALLS:
            return
        found = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
        if not found or not tokens.is_right(str(found[0])):
            raise UnauthorizedError("this server requires a token: send the metadata `authorization: Bearer TOKEN`")

    def _check_rate(self, name: str, context: Any) -> None:
        if self._settings.limits.client_rate and name not in _QUIET_CALLS:
            self._plane.rates.check(client_key(_host(self._proxy.client(context.peer()))))

    def _log(self, name: str, code: str, started: float, context: Any, call: Call) -> None:
        milliseconds = round(1000 * (time.perf_counter() - started), 3)
        client = one_line(self._proxy.client(context.peer()))
        fields = {"method": name, "code": code, "ms": milliseconds, "client": client, "model": one_line(call.model)}
        level = logging.DEBUG if name in _QUIET_CALLS and code == "OK" else logging.INFO
        _LOG.log(level, "gRPC %(method)s %(code)s %(ms)s ms", fields, extra={"fields": fields})


class _Arriving:
    """The messages of a call. No generator: a suspended one would keep the last message, and gRPC keeps generators."""

    def __init__(self, context: Any, proxy: AdmissionProxy) -> None:
        self._context, self._proxy = context, proxy

    def __aiter__(self) -> _Arriving:
        return self

    async def __anext__(self) -> bytes:
        raw = await self._context.read()
        if raw is grpc.aio.EOF:
            raise StopAsyncIteration
        self._proxy.arrived(len(raw))
        return bytes(raw)


def _host(client: str) -> str:
    return client.rpartition(":")[0].strip("[]")


def _headers(context: Any) -> dict[str, str]:
    return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}


def _encode(answer: Any) -> bytes:
    """What has tensors in it comes encoded."""
    return answer if isinstance(answer, bytes) else answer.SerializeToString()
