"""`RpcServer`: ports, limits, TLS and token of gRPC."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from openrknn.errors import UnsupportedError
from openrknn.serve.errors import ServeError, UnauthorizedError
from openrknn.serve.plane.face import Plane
from openrknn.serve.rest.guard import is_right_token
from openrknn.serve.rpc.health import Health
from openrknn.serve.rpc.messages import health, inference
from openrknn.serve.rpc.schema import Method
from openrknn.serve.rpc.service import Service

__all__ = ["RpcServer"]

_LOG = logging.getLogger("openrknn.serve.access")
_OPEN_CALLS = frozenset({"ServerLive", "ServerReady", "Check", "Watch"})
"""What needs no token: probes of a cluster have none."""


class RpcServer:
    """gRPC on the loop that runs."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._settings = plane.settings
        self._closing = asyncio.Event()
        limits = self._settings.limits
        self._server = grpc.aio.server(
            maximum_concurrent_rpcs=limits.streams,
            options=[
                ("grpc.max_receive_message_length", limits.body_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", limits.streams),
                ("grpc.so_reuseport", 0),
                # A client that is gone without a word is noticed.
                ("grpc.keepalive_time_ms", 60_000),
                ("grpc.keepalive_timeout_ms", 20_000),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ],
        )
        service, watcher = Service(plane, self._closing), Health(plane, self._closing)
        self._server.add_generic_rpc_handlers(
            (
                self._handlers("inference.GRPCInferenceService", inference().methods("GRPCInferenceService"), service),
                self._handlers("grpc.health.v1.Health", health().methods("Health"), watcher),
            )
        )

    async def start(self) -> int:
        """Listen; the port."""
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        address = f"{host}:{self._settings.grpc_port}"
        try:
            credentials = self._credentials()
            if credentials is None:
                port: int = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise OSError(f"gRPC cannot listen on {address}: {error}") from None
        await self._server.start()
        return port

    async def stop(self, grace_seconds: float) -> None:
        """Take nothing more; wait for what was taken."""
        self._closing.set()
        await self._server.stop(grace_seconds)

    def _credentials(self) -> Any:
        tls = self._settings.tls
        if tls is None:
            return None
        try:
            pair = (Path(tls.key).read_bytes(), Path(tls.certificate).read_bytes())
            authority = Path(tls.client_ca).read_bytes() if tls.client_ca else None
        except OSError as error:
            raise UnsupportedError(f"the TLS files cannot be used: {error}") from None
        return grpc.ssl_server_credentials([pair], authority, require_client_auth=authority is not None)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _handlers(self, service: str, methods: list[Method], target: object) -> Any:
        handlers = {}
        for method in methods:
            function = getattr(target, method.name)
            coders = {
                "request_deserializer": method.request.FromString,
                "response_serializer": _encode,
            }
            if method.streams_responses:
                make = (
                    grpc.stream_stream_rpc_method_handler
                    if method.streams_requests
                    else grpc.unary_stream_rpc_method_handler
                )
                handlers[method.name] = make(self._streaming(method.name, function), **coders)
            else:
                single = self._single(method.name, function)
                handlers[method.name] = grpc.unary_unary_rpc_method_handler(single, **coders)
        return grpc.method_handlers_generic_handler(service, handlers)

    def _single(self, name: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        async def call(request: Any, context: Any) -> Any:
            started, code = time.perf_counter(), "OK"
            try:
                self._check_token(name, context)
                return await function(request, context)
            except ServeError as error:
                code = error.code
                await _abort(context, error)
            except asyncio.CancelledError:
                code = "CANCELLED"
                raise
            finally:
                _log(name, code, started, context, getattr(request, "model_name", ""))

        return call

    def _streaming(self, name: str, function: Callable[[Any, Any], AsyncIterator[Any]]) -> Callable[[Any, Any], Any]:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            started, code = time.perf_counter(), "OK"
            try:
                self._check_token(name, context)
                async for answer in function(request, context):
                    yield answer
            except ServeError as error:
                code = error.code
                await _abort(context, error)
            except asyncio.CancelledError:
                code = "CANCELLED"
                raise
            finally:
                _log(name, code, started, context, "")

        return call

    def _check_token(self, name: str, context: Any) -> None:
        token = self._settings.token
        if token is None or name in _OPEN_CALLS:
            return
        found = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
        if not found or not is_right_token(str(found[0]), token):
            raise UnauthorizedError("this server wants a token: send the metadata `authorization: Bearer TOKEN`")


def _encode(answer: Any) -> bytes:
    """What has tensors in it comes encoded."""
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


async def _abort(context: Any, error: ServeError) -> None:
    await context.abort(getattr(grpc.StatusCode, error.code), str(error))


def _log(name: str, code: str, started: float, context: Any, model: str) -> None:
    milliseconds = round(1000 * (time.perf_counter() - started), 3)
    fields = {"method": name, "code": code, "ms": milliseconds, "client": context.peer(), "model": model}
    _LOG.info("gRPC %(method)s %(code)s %(ms)s ms", fields, extra={"fields": fields})
