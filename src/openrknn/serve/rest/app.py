"""The routes."""

from __future__ import annotations

import asyncio
import time

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from openrknn.serve import metrics, tracing
from openrknn.serve.errors import BadRequestError, FullError, NotFoundError, NotReadyError
from openrknn.serve.page import api as page
from openrknn.serve.plane import describe
from openrknn.serve.plane.budget import Share
from openrknn.serve.plane.plane import Plane
from openrknn.serve.plane.served import Served
from openrknn.serve.plane.uploaded_models import files_of
from openrknn.serve.realtime.client_secrets import client_secrets_route
from openrknn.serve.realtime.route import realtime_route
from openrknn.serve.rest import audio, deepstack, extensions, llm_routes
from openrknn.serve.rest import infer as infer_format
from openrknn.serve.rest.body import SHARE, compress, read_body
from openrknn.serve.rest.disconnect import unless_gone
from openrknn.serve.rest.extensions import small_json
from openrknn.serve.rest.middleware import Middleware
from openrknn.serve.rest.openapi import description
from openrknn.serve.rest.pictures import Pictures
from openrknn.serve.traces import Trace

__all__ = ["build"]

_HEADER_LENGTH = "inference-header-content-length"
_JSON_BYTES_PER_ELEMENT = 40
_LONG_TEXT, _TEXT_COST = 32768, 16
"""JSON of more bytes takes long, and costs so much per byte beside what is merely copied."""
_JSON_BYTES = 256 * 1024
"""Beside the numbers. Much more than that, for a model with small inputs, only keeps the server busy."""


def build(plane: Plane) -> ASGIApp:
    """The application."""
    return Middleware(_Api(plane).app(), plane)


class _Api:
    def __init__(self, plane: Plane) -> None:
        self._plane, self._settings = plane, plane.settings
        self._limits = plane.settings.limits
        self._pictures = Pictures(plane)
        self._metrics = metrics.registry(plane)

    def app(self) -> ASGIApp:
        model, version = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"
        routes = [
            Route(f"{model}/infer", self._infer, methods=["POST"]),  # first: routes are tried one after the other
            Route("/v2", self._server),
            Route("/v2/health/live", self._live),
            Route("/v2/health/ready", self._ready),
            Route("/v2/models/stats", self._all_stats),
            *(
                Route(f"{base}{path}", endpoint, methods=methods)
                for base in (model, version)
                for path, endpoint, methods in (
                    ("", self._metadata, ["GET"]),
                    ("/ready", self._model_ready, ["GET"]),
                    ("/config", self._config, ["GET"]),
                    ("/stats", self._stats, ["GET"]),
                    ("/infer", self._infer, ["POST"]),
                    ("/image", self._image, ["POST"]),
                )
            ),
            Route("/v2/repository/index", self._index, methods=["POST"]),
            Route("/v2/repository/models/{name}/load", self._load, methods=["POST"]),
            Route("/v2/repository/models/{name}/unload", self._unload, methods=["POST"]),
            *extensions.routes(self._plane),
            Route("/metrics", self._prometheus),
            Route("/openapi.json", self._openapi),
            *llm_routes.routes(self._plane),
            *audio.routes(self._plane),
            *deepstack.routes(self._plane, self._pictures),
            realtime_route(self._plane),
            client_secrets_route(self._plane),
            *(page.routes(self._plane) if self._settings.page else ()),
        ]
        return Router(routes, redirect_slashes=False, default=_nowhere)

    # -- about the server ----------------------------------------------------------------------------------------

    async def _server(self, _: Request) -> Response:
        return JSONResponse(describe.server_metadata(self._plane))

    async def _live(self, _: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, _: Request) -> Response:
        problem = self._plane.ready_problem()
        if problem:
            raise NotReadyError(problem)
        return JSONResponse({"ready": True})

    async def _prometheus(self, request: Request) -> Response:
        text, kind = metrics.render(self._metrics, request.headers.get("accept", ""))
        return Response(text, media_type=kind)

    async def _openapi(self, _: Request) -> Response:
        return JSONResponse(description(has_token=self._settings.token is not None))

    # -- about models --------------------------------------------------------------------------------------------

    def _find(self, request: Request) -> Served:
        return self._plane.repository.find(request.path_params["name"], request.path_params.get("version", ""))

    async def _metadata(self, request: Request) -> Response:
        return JSONResponse(describe.model_metadata(self._plane, self._find(request)))

    async def _model_ready(self, request: Request) -> Response:
        name = request.path_params["name"]
        problem = self._plane.model_problem(name, request.path_params.get("version", ""))
        if problem:
            raise NotReadyError(problem)
        return JSONResponse({"name": name, "ready": True})

    async def _config(self, request: Request) -> Response:
        return JSONResponse(describe.model_config(self._find(request)))

    async def _stats(self, request: Request) -> Response:
        some = self._plane.repository.some(request.path_params["name"], request.path_params.get("version", ""))
        return JSONResponse({"model_stats": [describe.statistics(one) for one in some]})

    async def _all_stats(self, _: Request) -> Response:
        return JSONResponse({"model_stats": [describe.statistics(one) for one in self._plane.repository.served()]})

    # -- the repository ------------------------------------------------------------------------------------------

    async def _index(self, request: Request) -> Response:
        words = await small_json(request, self._limits)
        only_ready = words.get("ready", False)
        if not isinstance(only_ready, bool):
            raise BadRequestError("'ready' is true or false")
        rows = [entry.as_json() for entry in self._plane.repository.entries()]
        return JSONResponse([row for row in rows if not only_ready or row["state"] == "READY"])

    async def _load(self, request: Request) -> Response:
        self._plane.check_may_change()
        words = await small_json(request, self._limits, self._limits.body_bytes)
        name, repository = request.path_params["name"], self._plane.repository
        parameters = extensions.parameters_of(words)
        if not parameters:
            await asyncio.to_thread(repository.load, name)
            return JSONResponse({})
        files = files_of(parameters)
        request.scope[SHARE].grow(sum(len(text) for text in files.values() if isinstance(text, str)))
        contents = await asyncio.to_thread(extensions.from_base64, files)
        await asyncio.to_thread(repository.load_given, name, parameters.get("config"), contents)
        return JSONResponse({})

    async def _unload(self, request: Request) -> Response:
        self._plane.check_may_change()
        # unload_dependents is taken, and there are none: no model of ours is made of others.
        infer_format.flag(extensions.parameters_of(await small_json(request, self._limits)), "unload_dependents")
        await asyncio.to_thread(self._plane.repository.unload, request.path_params["name"])
        return JSONResponse({})

    # -- running -------------------------------------------------------------------------------------------------

    async def _infer(self, request: Request) -> Response:
        served = self._find(request)
        self._check_room(served)
        elements = served.signature.largest_bytes() // 8
        most = _JSON_BYTES + _JSON_BYTES_PER_ELEMENT * elements
        traced = self._plane.traces.start(served.name, served.version, "HTTP")
        if traced is not None:
            traced.mark("HTTP_RECV_START")
        with tracing.request("infer", served, request.headers) as span:
            body = await read_body(request, self._limits, most)
            if traced is not None:
                traced.mark("HTTP_RECV_END")
            share: Share = request.scope[SHARE]
            parsed = await self._parsed(body, request.headers.get(_HEADER_LENGTH), share)
            share.grow(infer_format.answer_bytes(parsed, served.signature))
            if traced is not None:
                traced.name(parsed.id)
                traced.mark("REQUEST_START")
            answer = await unless_gone(request, self._plane.infer(served, parsed.request))
            if traced is not None:
                traced.answered(answer, parsed.request.pre_seconds)
            started = time.perf_counter()
            content, json_bytes = infer_format.build(parsed, answer)
            accepted = request.headers.get("accept-encoding", "")
            content, encoding = await compress(content, accepted, is_binary=json_bytes is not None)
            self._plane.done(served, answer, time.perf_counter() - started)
            span.stages(answer.stages)
        headers = {"content-type": "application/json" if json_bytes is None else "application/octet-stream"}
        if json_bytes is not None:
            headers[_HEADER_LENGTH] = str(json_bytes)
        if encoding:
            headers["content-encoding"] = encoding
        return Response(content, headers=headers, background=self._sending(traced))

    def _sending(self, traced: Trace | None) -> BackgroundTask | None:
        """The end of a trace: Starlette does it when the answer is sent."""
        if traced is None:
            return None
        traced.mark("HTTP_SEND_START")
        return BackgroundTask(self._sent, traced)

    async def _sent(self, traced: Trace) -> None:
        traced.mark("HTTP_SEND_END")
        self._plane.traces.end(traced)

    async def _parsed(self, body: bytes, header_length: str | None, share: Share) -> infer_format.Parsed:
        """Long texts are taken apart beside the loop: others are answered meanwhile."""
        plane = self._plane
        has_length = header_length is not None and header_length.isascii() and header_length.isdigit()
        if (int(header_length[:18]) if has_length and header_length else len(body)) <= _LONG_TEXT:
            return infer_format.parse(body, header_length, share, plane.regions)
        cost = _TEXT_COST * len(body)
        return await plane.throttled.run(cost, lambda: infer_format.parse(body, header_length, share, plane.regions))

    async def _image(self, request: Request) -> Response:
        served = self._find(request)
        self._check_room(served)
        options = self._pictures.options(request.query_params)
        with tracing.request("image", served, request.headers) as span:
            body = await read_body(request, self._limits)
            seen = self._pictures.see(served, body, options)
            content, kind, stages = await unless_gone(request, seen)
            span.stages(stages)
        return Response(content, media_type=kind)

    def _check_room(self, served: Served) -> None:
        """Before the body is read: a full queue is reported at once."""
        if len(served.queue) >= served.queue.size:
            error = FullError(
                f"model {served.name!r} has {served.queue.size} requests waiting; try again later",
                retry_seconds=served.wait_seconds(),
            )
            served.stats.failed(error.code, 0.0)
            raise error


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    raise NotFoundError(f"there is nothing at {scope['path'][:120]!r}; /openapi.json lists what there is")
