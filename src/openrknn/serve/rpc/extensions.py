"""Triton's extensions over gRPC: shared memory, and what can be set while the server runs."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format

from openrknn.serve.errors import BadRequestError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rpc.call import Call
from openrknn.serve.rpc.messages import inference

__all__ = ["Extensions"]

_LOG_FIELDS = {bool: "bool_param", int: "uint32_param", str: "string_param"}


class Extensions:
    """The part of GRPCInferenceService that is about the server and not about models."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def _fill(self, name: str, words: dict[str, Any]) -> Any:
        return json_format.ParseDict(words, inference().message(name)())

    # -- shared memory -------------------------------------------------------------------------------------------

    async def SystemSharedMemoryStatus(self, request: Any, call: Call) -> Any:  # noqa: N802 - the protocol's names
        regions = {row["name"]: row for row in self._plane.regions.status(request.name)}
        return self._fill("SystemSharedMemoryStatusResponse", {"regions": regions})

    async def SystemSharedMemoryRegister(self, request: Any, call: Call) -> Any:  # noqa: N802
        self._plane.regions.register(request.name, request.key, request.offset, request.byte_size)
        return self._fill("SystemSharedMemoryRegisterResponse", {})

    async def SystemSharedMemoryUnregister(self, request: Any, call: Call) -> Any:  # noqa: N802
        self._plane.regions.unregister(request.name)
        return self._fill("SystemSharedMemoryUnregisterResponse", {})

    # Programs for Triton begin by unregistering what they may have left behind, CUDA's memory too.

    async def CudaSharedMemoryStatus(self, request: Any, call: Call) -> Any:  # noqa: N802
        return self._fill("CudaSharedMemoryStatusResponse", {})

    async def CudaSharedMemoryRegister(self, request: Any, call: Call) -> Any:  # noqa: N802
        raise BadRequestError("an NPU has no CUDA memory; use system shared memory")

    async def CudaSharedMemoryUnregister(self, request: Any, call: Call) -> Any:  # noqa: N802
        return self._fill("CudaSharedMemoryUnregisterResponse", {})

    # -- settings ------------------------------------------------------------------------------------------------

    async def TraceSetting(self, request: Any, call: Call) -> Any:  # noqa: N802
        traces, model = self._plane.traces, request.model_name
        if model:
            self._plane.repository.find(model)
        if request.settings:
            self._plane.check_may_change()
            changes = {key: list(value.value) or None for key, value in request.settings.items()}
            found = traces.update(changes, model)
        else:
            found = traces.settings(model)
        rows = {key: {"value": value if isinstance(value, list) else [value]} for key, value in found.items()}
        return self._fill("TraceSettingResponse", {"settings": rows})

    async def LogSettings(self, request: Any, call: Call) -> Any:  # noqa: N802
        logs = self._plane.logs
        if request.settings:
            self._plane.check_may_change()
            found = logs.update({key: _value(given) for key, given in request.settings.items()})
        else:
            found = logs.settings()
        rows = {key: {_LOG_FIELDS[type(value)]: value} for key, value in found.items()}
        return self._fill("LogSettingsResponse", {"settings": rows})


def _value(given: Any) -> Any:
    choice = given.WhichOneof("parameter_choice")
    return getattr(given, choice) if choice else None
