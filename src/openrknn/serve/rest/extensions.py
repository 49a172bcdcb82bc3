"""Routes of Triton's extensions: shared memory, and what can be set while the server runs."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from openrknn.serve.errors import BadRequestError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest import infer as infer_format
from openrknn.serve.rest.body import SHARE, read_body
from openrknn.serve.settings import Limits

__all__ = ["from_base64", "parameters_of", "routes", "small_json"]

_SMALL_BODY = 65536


async def small_json(request: Request, limits: Limits, most_bytes: int = _SMALL_BODY) -> dict[str, Any]:
    """An object, or nothing."""
    body = await read_body(request, limits, most_bytes)
    request.scope[SHARE].grow(infer_format.json_bytes(body))
    return infer_format.load_json(body) if body.strip() else {}


def parameters_of(words: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a load or unload request."""
    parameters = words.get("parameters")
    if parameters is not None and not isinstance(parameters, dict):
        raise BadRequestError("parameters have to be an object")
    return parameters or {}


def from_base64(files: Mapping[str, object]) -> dict[str, bytes]:
    """The files of a load request."""
    made = {}
    for name, text in files.items():
        try:
            made[name] = base64.b64decode(text if isinstance(text, str) else "!", validate=True)
        except ValueError:
            raise BadRequestError(f"{name[:80]!r} is not base64") from None
    return made


def routes(plane: Plane) -> list[Route]:
    """All of them."""
    api = _Extensions(plane)
    memory, cuda = "/v2/systemsharedmemory", "/v2/cudasharedmemory"
    return [
        Route(f"{memory}/status", api.status),
        Route(f"{memory}/region/{{name:path}}/status", api.status),
        Route(f"{memory}/region/{{name:path}}/register", api.register, methods=["POST"]),
        Route(f"{memory}/unregister", api.unregister, methods=["POST"]),
        Route(f"{memory}/region/{{name:path}}/unregister", api.unregister, methods=["POST"]),
        Route("/v2/trace/setting", api.trace, methods=["GET", "POST"]),
        Route("/v2/models/{name}/trace/setting", api.trace, methods=["GET", "POST"]),
        Route("/v2/logging", api.logging, methods=["GET", "POST"]),
        Route(f"{cuda}/status", api.nothing),
        Route(f"{cuda}/region/{{name:path}}/register", api.no_cuda, methods=["POST"]),
        Route(f"{cuda}/unregister", api.nothing_to_do, methods=["POST"]),
        Route(f"{cuda}/region/{{name:path}}/unregister", api.nothing_to_do, methods=["POST"]),
    ]


class _Extensions:
    def __init__(self, plane: Plane) -> None:
        self._plane, self._limits = plane, plane.settings.limits

    # -- shared memory -------------------------------------------------------------------------------------------

    async def status(self, request: Request) -> Response:
        return JSONResponse(self._plane.regions.status(request.path_params.get("name", "")))

    async def register(self, request: Request) -> Response:
        words = await small_json(request, self._limits)
        name = request.path_params["name"]
        self._plane.regions.register(name, words.get("key"), words.get("offset", 0), words.get("byte_size"))
        return JSONResponse({})

    async def unregister(self, request: Request) -> Response:
        await small_json(request, self._limits)
        self._plane.regions.unregister(request.path_params.get("name", ""))
        return JSONResponse({})

    # Programs for Triton begin by unregistering what they may have left behind, CUDA's memory too.

    async def nothing(self, _: Request) -> Response:
        return JSONResponse([])

    async def nothing_to_do(self, _: Request) -> Response:
        return JSONResponse({})

    async def no_cuda(self, _: Request) -> Response:
        raise BadRequestError("an NPU has no CUDA memory; use system shared memory")

    # -- settings ------------------------------------------------------------------------------------------------

    async def trace(self, request: Request) -> Response:
        model = request.path_params.get("name", "")
        if model:
            self._plane.repository.find(model)
        if request.method == "GET":
            return JSONResponse(self._plane.traces.settings(model))
        self._plane.check_may_change()
        return JSONResponse(self._plane.traces.update(await small_json(request, self._limits), model))

    async def logging(self, request: Request) -> Response:
        if request.method == "GET":
            return JSONResponse(self._plane.logs.settings())
        self._plane.check_may_change()
        return JSONResponse(self._plane.logs.update(await small_json(request, self._limits)))
