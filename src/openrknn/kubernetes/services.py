"""The kubelet's services: handlers for our side and stubs for the other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from openrknn.errors import UnsupportedError
from openrknn.extras import missing
from openrknn.kubernetes.messages import schema

__all__ = ["Socket", "handler", "identity", "load_grpc", "new_server", "stub", "unix"]


def load_grpc() -> Any:
    """grpcio, or an error that says how to get it."""
    try:
        import google.protobuf
        import grpc
    except ImportError as error:
        raise UnsupportedError(missing(error, "kubernetes")) from None
    del google
    return grpc


def handler(service: str, implementation: object) -> Any:
    """For `server.add_generic_rpc_handlers`: each method is the attribute of the same name."""
    grpc = load_grpc()
    package, _, name = service.rpartition(".")
    handlers = {}
    for method in schema(package).methods(name):
        is_stream = method.streams_responses
        make = grpc.unary_stream_rpc_method_handler if is_stream else grpc.unary_unary_rpc_method_handler
        handlers[method.name] = make(
            getattr(implementation, method.name),
            request_deserializer=method.request.FromString,
            response_serializer=method.response.SerializeToString,
        )
    return grpc.method_handlers_generic_handler(service, handlers)


def stub(channel: Any, service: str) -> Any:
    """An object with the service's methods."""
    package, _, name = service.rpartition(".")
    calls = {}
    for method in schema(package).methods(name):
        make = channel.unary_stream if method.streams_responses else channel.unary_unary
        calls[method.name] = make(
            f"/{service}/{method.name}",
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
    return SimpleNamespace(**calls)


def new_server(workers: int = 8) -> Any:
    """A gRPC server; each watching kubelet holds one worker."""
    from concurrent.futures import ThreadPoolExecutor

    return load_grpc().server(ThreadPoolExecutor(workers, thread_name_prefix="openrknn-kubelet"))


def unix(path: object) -> str:
    """The address of a socket file."""
    return f"unix:{path}"


def identity(path: Path) -> tuple[int, int] | None:
    """Which file this is: a process that starts again makes another one at the same path. None: there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


class Socket:
    """Services on a socket file. It knows its own file from one that another process left or made there."""

    def __init__(self, path: Path, services: Mapping[str, object], workers: int = 8) -> None:
        """Take the path over, if a process that was killed left it.

        gRPC deletes the path it was given when it stops, even if another process serves there by then. So it gets a
        hidden name (the kubelet ignores those), and the file is moved into place once the server listens.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        own = path.with_name(f".{path.name}")
        own.unlink(missing_ok=True)
        self.path = path
        self._server = new_server(workers)
        self._server.add_generic_rpc_handlers(tuple(handler(name, one) for name, one in services.items()))
        self._server.add_insecure_port(unix(own))
        self._server.start()
        os.replace(own, path)
        self._identity = identity(path)

    @property
    def is_reachable(self) -> bool:
        """Whether the file at the path is still ours."""
        return identity(self.path) == self._identity

    def close(self) -> None:
        """Stop. The file goes first, and only if it is ours; calls that run are given their time."""
        if self.is_reachable:
            self.path.unlink(missing_ok=True)
        self._server.stop(grace=0.5).wait()
