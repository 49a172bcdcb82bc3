"""The kubelet's services: which methods there are, handlers for our side and stubs for the other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from openrknn.errors import UnsupportedError
from openrknn.extras import missing
from openrknn.kubernetes.messages import DEVICE_PLUGIN, DRA, DRA_HEALTH, POD_RESOURCES, REGISTRATION, message

__all__ = ["SERVICES", "Method", "Socket", "handler", "identity", "load_grpc", "new_server", "stub", "unix"]


class Method(NamedTuple):
    """One call."""

    request: str
    response: str
    streams: bool = False
    """Whether it answers with a stream."""


SERVICES: Mapping[str, tuple[str, Mapping[str, Method]]] = {
    "v1beta1.Registration": (DEVICE_PLUGIN, {"Register": Method("RegisterRequest", "Empty")}),
    "v1beta1.DevicePlugin": (
        DEVICE_PLUGIN,
        {
            "GetDevicePluginOptions": Method("Empty", "DevicePluginOptions"),
            "ListAndWatch": Method("Empty", "ListAndWatchResponse", streams=True),
            "GetPreferredAllocation": Method("PreferredAllocationRequest", "PreferredAllocationResponse"),
            "Allocate": Method("AllocateRequest", "AllocateResponse"),
            "PreStartContainer": Method("PreStartContainerRequest", "PreStartContainerResponse"),
        },
    ),
    "pluginregistration.Registration": (
        REGISTRATION,
        {
            "GetInfo": Method("InfoRequest", "PluginInfo"),
            "NotifyRegistrationStatus": Method("RegistrationStatus", "RegistrationStatusResponse"),
        },
    ),
    "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin": (
        DRA,
        {
            "NodePrepareResources": Method("NodePrepareResourcesRequest", "NodePrepareResourcesResponse"),
            "NodeUnprepareResources": Method("NodeUnprepareResourcesRequest", "NodeUnprepareResourcesResponse"),
        },
    ),
    "v1alpha1.DRAResourceHealth": (
        DRA_HEALTH,
        {"NodeWatchResources": Method("NodeWatchResourcesRequest", "NodeWatchResourcesResponse", streams=True)},
    ),
    "v1.PodResourcesLister": (
        POD_RESOURCES,
        {
            "List": Method("ListPodResourcesRequest", "ListPodResourcesResponse"),
            "GetAllocatableResources": Method("AllocatableResourcesRequest", "AllocatableResourcesResponse"),
        },
    ),
}
"""Full name of a service -> package of its messages, methods."""


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
    package, methods = SERVICES[service]
    handlers = {}
    for name, method in methods.items():
        make = grpc.unary_stream_rpc_method_handler if method.streams else grpc.unary_unary_rpc_method_handler
        handlers[name] = make(
            getattr(implementation, name),
            request_deserializer=message(package, method.request).FromString,
            response_serializer=message(package, method.response).SerializeToString,
        )
    return grpc.method_handlers_generic_handler(service, handlers)


def stub(channel: Any, service: str) -> Any:
    """An object with the service's methods."""
    package, methods = SERVICES[service]
    calls = {}
    for name, method in methods.items():
        make = channel.unary_stream if method.streams else channel.unary_unary
        calls[name] = make(
            f"/{service}/{name}",
            request_serializer=message(package, method.request).SerializeToString,
            response_deserializer=message(package, method.response).FromString,
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

        gRPC deletes the path it was given when it stops, whoever serves there by then. So it gets a name of its own,
        hidden (the kubelet passes over those), and the file is moved into its place once somebody listens on it.
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
