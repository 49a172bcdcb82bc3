"""The calls of the inference service. Each takes a message and a context, and gives a message."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from google.protobuf import json_format

from openrknn.serve import tracing
from openrknn.serve.errors import BadRequestError, ForbiddenError, NotFoundError, ServeError
from openrknn.serve.plane import describe
from openrknn.serve.plane.face import Plane
from openrknn.serve.rpc import tensors
from openrknn.serve.rpc.messages import inference

__all__ = ["Service"]

_WINDOW = 8
"""Requests of one stream that may be under way at the same time."""


class Service:
    """GRPCInferenceService. `closing` is set when the server drains: streams end after what they have taken."""

    def __init__(self, plane: Plane, closing: asyncio.Event) -> None:
        self._plane, self._closing = plane, closing
        self._answer = inference().message("ModelInferResponse")
        self._stream_answer = inference().message("ModelStreamInferResponse")

    def _fill(self, name: str, words: dict[str, Any]) -> Any:
        return json_format.ParseDict(words, inference().message(name)())

    async def ServerLive(self, _: Any, context: Any) -> Any:  # noqa: N802 - the protocol's names
        return self._fill("ServerLiveResponse", {"live": True})

    async def ServerReady(self, _: Any, context: Any) -> Any:  # noqa: N802
        return self._fill("ServerReadyResponse", {"ready": not self._plane.ready_problem()})

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            problem = self._plane.model_problem(request.name, request.version)
        except NotFoundError as error:
            problem = str(error)
        return self._fill("ModelReadyResponse", {"ready": not problem})

    async def ServerMetadata(self, _: Any, context: Any) -> Any:  # noqa: N802
        return self._fill("ServerMetadataResponse", describe.server_metadata())

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        served = self._plane.repository.find(request.name, request.version)
        return self._fill("ModelMetadataResponse", describe.model_metadata(self._plane, served))

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        served = self._plane.repository.find(request.name, request.version)
        return self._fill("ModelConfigResponse", {"config": describe.model_config(served)})

    async def ModelStatistics(self, request: Any, context: Any) -> Any:  # noqa: N802
        repository = self._plane.repository
        some = [repository.find(request.name, request.version)] if request.name else repository.served()
        return self._fill("ModelStatisticsResponse", {"model_stats": [describe.statistics(one) for one in some]})

    async def RepositoryIndex(self, request: Any, context: Any) -> Any:  # noqa: N802
        rows = [entry.as_json() for entry in self._plane.repository.entries()]
        rows = [row for row in rows if not request.ready or row["state"] == "READY"]
        return self._fill("RepositoryIndexResponse", {"models": rows})

    async def RepositoryModelLoad(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._check_may_change(request)
        await asyncio.to_thread(self._plane.repository.load, request.model_name)
        return self._fill("RepositoryModelLoadResponse", {})

    async def RepositoryModelUnload(self, request: Any, context: Any) -> Any:  # noqa: N802
        if not self._plane.settings.allow_repository:
            raise ForbiddenError("this server was started with --fixed: models cannot be loaded or unloaded")
        await asyncio.to_thread(self._plane.repository.unload, request.model_name)
        return self._fill("RepositoryModelUnloadResponse", {})

    def _check_may_change(self, request: Any) -> None:
        if not self._plane.settings.allow_repository:
            raise ForbiddenError("this server was started with --fixed: models cannot be loaded or unloaded")
        if request.parameters:
            raise BadRequestError("load takes no parameters: files and configurations come from the repository only")

    # -- running -------------------------------------------------------------------------------------------------

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        headers = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        return await self._infer(request, headers, context.time_remaining())

    async def _infer(self, request: Any, headers: dict[str, str], seconds_left: float | None) -> bytes:
        """A ModelInferResponse, encoded."""
        served = self._plane.repository.find(request.model_name, request.model_version)
        with self._plane.budget.share(request.ByteSize()), tracing.request("infer", served, headers) as span:
            answer = await self._plane.infer(served, tensors.parse(request, seconds_left))
            started = time.perf_counter()
            response = tensors.build(self._answer(), answer, request.id)
            self._plane.done(served, answer, time.perf_counter() - started)
            span.stages(answer.stages)
        return response

    async def ModelStreamInfer(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:  # noqa: N802
        """Answers come in the order of the requests; a few are under way at the same time."""
        headers = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        waiting: asyncio.Queue[asyncio.Task[Any] | None] = asyncio.Queue(_WINDOW)
        reader = asyncio.create_task(self._read(requests, headers, waiting))
        task: asyncio.Task[Any] | None = None
        try:
            while (task := await waiting.get()) is not None:
                yield await task
            await reader
        finally:
            reader.cancel()
            while task is not None:
                task.cancel()
                task = waiting.get_nowait() if not waiting.empty() else None

    async def _read(
        self, requests: AsyncIterator[Any], headers: dict[str, str], waiting: asyncio.Queue[asyncio.Task[Any] | None]
    ) -> None:
        closing = asyncio.ensure_future(self._closing.wait())
        stream = aiter(requests)
        coming: asyncio.Future[Any] | None = None
        try:
            while True:
                coming = asyncio.ensure_future(_next(stream))
                await asyncio.wait({coming, closing}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done() or coming.result() is None:
                    break
                await waiting.put(asyncio.ensure_future(self._one_of_stream(coming.result(), headers)))
        finally:
            closing.cancel()
            if coming is not None and not coming.done():
                coming.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await coming
            await waiting.put(None)

    async def _one_of_stream(self, request: Any, headers: dict[str, str]) -> Any:
        """Errors are answers here: the stream goes on."""
        made = self._stream_answer()
        try:
            made.infer_response.MergeFromString(await self._infer(request, headers, None))
        except ServeError as error:
            made.error_message = str(error)
            made.infer_response.id = request.id
            made.infer_response.model_name = request.model_name
        made.infer_response.parameters["triton_final_response"].bool_param = True
        return made


async def _next(stream: AsyncIterator[Any]) -> Any:
    return await anext(stream, None)
