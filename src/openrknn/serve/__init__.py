"""`openrknn serve`: models behind the Open Inference Protocol v2, over REST and gRPC.

    from openrknn.serve import Settings, running

    with running(Settings(sources=["yolo.rknn"], http_port=0, grpc_port=0)) as server:
        print(server.url, server.grpc_address)

    plane       the data plane of both protocols: repository, queues, contexts, statistics
    rest        HTTP: the protocol, pictures, limits, the OpenAPI description
    rpc         gRPC: the same protocol, its health service, messages described at run time
    sources     models from HTTP(S) and S3-compatible storage
    page        the web page and what it asks for
    metrics     for Prometheus;   tracing: OpenTelemetry;   logs: lines of JSON
    watch       load and temperature of the NPUs;   memory: what malloc keeps;   errors, datatypes
    settings    everything that a user can choose;   server: start, drain, stop

Needs the extra `serve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openrknn.serve.server import Server, running
    from openrknn.serve.settings import Settings

__all__ = ["Server", "Settings", "running"]


def __getattr__(name: str) -> Any:
    # Uvicorn and gRPC are loaded only by who wants a server.
    if name == "Settings":
        from openrknn.serve.settings import Settings

        return Settings
    if name in {"Server", "running"}:
        from openrknn.serve import server

        return getattr(server, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
