"""The calls of the inference service. Each takes a message and a `Call`, and gives a message."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from openrknn.serve import tracing
from openrknn.serve.errors import NotFoundError, ServeError
from openrknn.serve.plane import describe
from openrknn.serve.plane.budget import Share
from openrknn.serve.plane.plane import Plane
from openrknn.serve.plane.uploaded_models import files_of
from openrknn.serve.rpc import tensors
from openrknn.serve.rpc.call import Call
from openrknn.serve.rpc.extensions import Extensions
from openrknn.serve.rpc.messages import inference
from openrknn.serve.rpc.streams import Stream
from openrknn.serve.traces import Trace

__all__ = ["Service"]

_WINDOW = 8
"""Requests of one stream that may be in flight at the same time."""


class Service(Extensions):
    """GRPCInferenceService. Streams end after what they have taken when the server drains."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(plane)
        self._answer = inference().message("ModelInferResponse")
        self._stream_answer = inference().message("ModelStreamInferResponse")

    async def ServerLive(self, _: Any, call: Call) -> Any:  # noqa: N802 - the protocol's names
        return self._fill("ServerLiveResponse", {"live": True})

    async def ServerReady(self, _: Any, call: Call) -> Any:  # noqa: N802
        return self._fill("ServerReadyResponse", {"ready": not self._plane.ready_problem()})

    async def ModelReady(self, request: Any, call: Call) -> Any:  # noqa: N802
        try:
            problem = self._plane.model_problem(request.name, request.version)
        except NotFoundError as error:
            problem = str(error)
        return self._fill("ModelReadyResponse", {"ready": not problem})

    async def ServerMetadata(self, _: Any, call: Call) -> Any:  # noqa: N802
        return self._fill("ServerMetadataResponse", describe.server_metadata(self._plane))

    async def ModelMetadata(self, request: Any, call: Call) -> Any:  # noqa: N802
        served = self._plane.repository.find(request.name, request.version)
        return self._fill("ModelMetadataResponse", describe.model_metadata(self._plane, served))

    async def ModelConfig(self, request: Any, call: Call) -> Any:  # noqa: N802
        served = self._plane.repository.find(request.name, request.version)
        return self._fill("ModelConfigResponse", {"config": describe.model_config(served)})

    async def ModelStatistics(self, request: Any, call: Call) -> Any:  # noqa: N802
        repository = self._plane.repository
        some = repository.some(request.name, request.version) if request.name else repository.served()
        return self._fill("ModelStatisticsResponse", {"model_stats": [describe.statistics(one) for one in some]})

    async def RepositoryIndex(self, request: Any, call: Call) -> Any:  # noqa: N802
        rows = [entry.as_json() for entry in self._plane.repository.entries()]
        rows = [row for row in rows if not request.ready or row["state"] == "READY"]
        return self._fill("RepositoryIndexResponse", {"models": rows})

    async def RepositoryModelLoad(self, request: Any, call: Call) -> Any:  # noqa: N802
        self._plane.check_may_change()
        repository = self._plane.repository
        if not request.parameters:
            await asyncio.to_thread(repository.load, request.model_name)
            return self._fill("RepositoryModelLoadResponse", {})
        files = {key: value.bytes_param for key, value in files_of(request.parameters).items()}
        config = request.parameters["config"].string_param if "config" in request.parameters else None
        await asyncio.to_thread(repository.load_given, request.model_name, config, files)
        return self._fill("RepositoryModelLoadResponse", {})

    async def RepositoryModelUnload(self, request: Any, call: Call) -> Any:  # noqa: N802
        self._plane.check_may_change()  # unload_dependents changes nothing: no model of ours is made of others
        await asyncio.to_thread(self._plane.repository.unload, request.model_name)
        return self._fill("RepositoryModelUnloadResponse", {})

    # -- running -------------------------------------------------------------------------------------------------

    async def ModelInfer(self, request: Any, call: Call) -> Any:  # noqa: N802
        return await self._infer(request, call, call.share, call.seconds_left, call.after)

    async def _infer(
        self, request: Any, call: Call, share: Share, seconds_left: float | None, after: list[Callable[[], None]]
    ) -> bytes:
        """A ModelInferResponse, encoded; `after` is done when it is sent."""
        served = self._plane.repository.find(request.model_name, request.model_version)
        traced = self._plane.traces.start(served.name, served.version, "GRPC")
        if traced is not None:
            traced.mark("GRPC_WAITREAD_START", call.started if call.stream is None else None)
            traced.mark("GRPC_WAITREAD_END")
            traced.name(request.id)
        with tracing.request("infer", served, call.headers) as span:
            parsed = tensors.parse(request, seconds_left, share, self._plane.regions)
            share.grow(tensors.answer_bytes(parsed, served.signature))
            if traced is not None:
                traced.mark("REQUEST_START")
            answer = await self._plane.infer(served, parsed)
            if traced is not None:
                traced.answered(answer, parsed.pre_seconds)
            started = time.perf_counter()
            response = tensors.build(self._answer(), answer, request.id)
            self._plane.done(served, answer, time.perf_counter() - started)
            span.stages(answer.stages)
        if traced is not None:
            traced.mark("GRPC_SEND_START")
            after.append(partial(self._sent, traced))
        return response

    def _sent(self, traced: Trace) -> None:
        traced.mark("GRPC_SEND_END")
        self._plane.traces.end(traced)

    async def ModelStreamInfer(self, messages: AsyncIterator[bytes], call: Call) -> AsyncIterator[Any]:  # noqa: N802
        """Answers come in the order of the requests; a few are in flight at the same time."""
        assert call.stream is not None
        waiting: asyncio.Queue[_Pending | None] = asyncio.Queue(_WINDOW)
        reader = asyncio.create_task(self._read(messages, call, call.stream, waiting))
        pending: _Pending | None = None
        try:
            while (pending := await waiting.get()) is not None:
                with pending.share:  # until the answer is written
                    yield await pending.task
                call.stream.touch(-1)
            await reader
        finally:
            reader.cancel()
            while pending is not None:
                pending.task.cancel()
                pending.share.close()
                pending = waiting.get_nowait() if not waiting.empty() else None

    async def _read(
        self, messages: AsyncIterator[bytes], call: Call, stream: Stream, waiting: asyncio.Queue[_Pending | None]
    ) -> None:
        ending = asyncio.ensure_future(stream.end.wait())
        coming: asyncio.Future[Any] | None = None
        try:
            while True:
                coming = asyncio.ensure_future(_next(messages))
                await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done() or coming.result() is None:
                    break
                stream.touch(1)
                share = self._plane.budget.open()
                task = asyncio.ensure_future(self._one_of_stream(coming.result(), call, share))
                await waiting.put(_Pending(task, share))
        finally:
            ending.cancel()
            if coming is not None and not coming.done():
                coming.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await coming
            await waiting.put(None)

    async def _one_of_stream(self, raw: bytes, call: Call, share: Share) -> Any:
        """Errors are answers here: the stream goes on."""
        made = self._stream_answer()
        request = None
        after: list[Callable[[], None]] = []
        try:
            request = call.parse(raw, share)
            made.infer_response.MergeFromString(await self._infer(request, call, share, None, after))
        except ServeError as error:
            made.error_message = str(error)
            if request is not None:
                made.infer_response.id = request.id
                made.infer_response.model_name = request.model_name
        made.infer_response.parameters["triton_final_response"].bool_param = True
        for done in after:  # it waits for its turn in the stream now
            done()
        return made


@dataclass(frozen=True, slots=True)
class _Pending:
    """A request of a stream on its way."""

    task: asyncio.Task[Any]
    share: Share


async def _next(stream: AsyncIterator[bytes]) -> bytes | None:
    return await anext(stream, None)
