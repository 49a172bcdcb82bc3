"""grpc.health.v1: the server, its service, and each model by its name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from openrknn.serve.errors import NotFoundError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rpc.call import Call
from openrknn.serve.rpc.messages import health
from openrknn.serve.timeouts import timeout

__all__ = ["Health"]

_SERVING, _NOT_SERVING, _UNKNOWN = 1, 2, 3
_WHOLE = {"", "inference.GRPCInferenceService", "grpc.health.v1.Health"}
_LOOK_SECONDS = 0.5


class Health:
    """Readiness as gRPC's own balancers and probes ask for it."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._answer = health().message("HealthCheckResponse")

    def _status(self, service: str) -> int:
        if service in _WHOLE:
            return _NOT_SERVING if self._plane.ready_problem() else _SERVING
        try:
            return _NOT_SERVING if self._plane.model_problem(service) else _SERVING
        except NotFoundError:
            return _UNKNOWN

    async def Check(self, request: Any, call: Call) -> Any:  # noqa: N802 - the protocol's names
        status = self._status(request.service)
        if status == _UNKNOWN:
            raise NotFoundError(f"there is no service or model {request.service[:80]!r}")
        return self._answer(status=status)

    async def Watch(self, request: Any, call: Call) -> AsyncIterator[Any]:  # noqa: N802
        """The status now and whenever it changes."""
        assert call.stream is not None
        last, end = None, call.stream.end
        while True:
            status = _NOT_SERVING if end.is_set() else self._status(request.service)
            if status != last:
                last = status
                yield self._answer(status=status)
            if end.is_set():
                return
            try:
                async with timeout(_LOOK_SECONDS):
                    await end.wait()
            except TimeoutError:
                continue
