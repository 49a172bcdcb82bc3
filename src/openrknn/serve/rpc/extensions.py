"""Triton's extensions over gRPC: shared memory, and what can be set while the server runs."""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format

from openrknn.serve.errors import BadRequestError
from openrknn.serve.plane.face import Plane
from openrknn.serve.rpc.call import Call
from openrknn.serve.rpc.messages import inference

__all__ = ["Extensions"]


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
