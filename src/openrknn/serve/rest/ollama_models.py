"""Ollama's interface: which models there are. They are chosen when the server starts: clients change nothing."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta, timezone
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from openrknn.llm.generation.thinking import can_think
from openrknn.serve.errors import ForbiddenError, NotFoundError
from openrknn.serve.llm.language import Language
from openrknn.serve.plane.describe import version
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest.generating import read_fields

__all__ = ["routes"]

_FOREVER = timedelta(days=36500)
_LIKE_OLLAMA = "0.12.0"
"""Whose interface this is. Clients compare it (three numbers) with the oldest that they work with."""
_CHANGES = ("create", "copy", "push", "delete")


def routes(plane: Plane) -> list[Route]:
    """What is there, and what cannot be changed."""
    mine = _Models(plane)
    return [
        Route("/api/show", mine.show, methods=["POST"]),
        Route("/api/tags", mine.tags),
        Route("/api/ps", mine.running),
        Route("/api/version", mine.version),
        Route("/api/pull", mine.pull, methods=["POST"]),
        *(Route(f"/api/{name}", mine.change, methods=["POST", "DELETE"]) for name in _CHANGES),
    ]


class _Models:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def version(self, _: HttpRequest) -> Response:
        return JSONResponse({"version": _LIKE_OLLAMA, "openrknn": version()})

    async def tags(self, _: HttpRequest) -> Response:
        return JSONResponse({"models": [_tag(one) for one in self._plane.languages.all()]})

    async def running(self, _: HttpRequest) -> Response:
        rows = [
            {**_tag(one), "expires_at": _until(one), "size_vram": one.found.size_bytes,
             "context_length": one.card.capacity}
            for one in self._plane.languages.all() if one.is_loaded
        ]  # fmt: skip
        return JSONResponse({"models": rows})

    async def show(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        one = self._plane.languages.find(fields.raw("model") or fields.raw("name") or "")
        card, tag = one.card, _tag(one)
        kind = card.architecture
        abilities = ["completion"] if not card.can_embed or card.can_chat else ["embedding"]
        return JSONResponse({
            "modelfile": f"FROM {one.name}", "parameters": "", "template": card.template, "license": card.licence,
            "details": tag["details"], "modified_at": tag["modified_at"],
            "model_info": {
                "general.architecture": kind, "general.parameter_count": card.parameters,
                f"{kind}.context_length": card.capacity,
            },
            "capabilities": [
                *abilities, *(["tools"] if "tools" in card.template else []),
                *(["thinking"] if can_think(card.template) else []),
            ],
        })  # fmt: skip

    async def pull(self, request: HttpRequest) -> Response:
        """A model that is served is there already; others are got on the server's machine."""
        fields = await read_fields(request, self._plane)
        try:
            self._plane.languages.find(fields.raw("model") or fields.raw("name") or "")
        except NotFoundError as error:
            raise NotFoundError(
                f"{error}; clients cannot pull models: run `openrknn llm get NAME` where the server is, and start it "
                "with `--llm NAME`"
            ) from None
        done = {"status": "success"}
        if fields.flag("stream", default=True):
            return Response(json.dumps(done).encode() + b"\n", media_type="application/x-ndjson")
        return JSONResponse(done)

    async def change(self, request: HttpRequest) -> Response:
        raise ForbiddenError(f"{request.url.path}: the models are those that the server was started with (--llm)")


def _until(one: Language) -> str:
    expires = one.idle.expires
    if expires is None:
        return (datetime.now(timezone.utc) + _FOREVER).isoformat()
    return datetime.fromtimestamp(expires, timezone.utc).isoformat()


def _tag(one: Language) -> dict[str, Any]:
    card = one.card
    changed = datetime.fromtimestamp(one.found.modified, timezone.utc).isoformat()
    name = one.name if ":" in one.name else f"{one.name}:latest"
    # A name for the file as it is: contents of gigabytes are not hashed for a list.
    digest = hashlib.sha256(f"{one.found.where} {one.found.size_bytes} {one.found.modified}".encode()).hexdigest()
    return {
        "name": name, "model": name, "modified_at": changed, "size": one.found.size_bytes, "digest": digest,
        "details": {
            "parent_model": "", "format": card.format, "family": card.architecture, "families": [card.architecture],
            "parameter_size": _size(card.parameters), "quantization_level": card.quantisation,
        },
    }  # fmt: skip


def _size(count: int) -> str:
    return f"{count / 1e9:.1f}B" if count >= 1e9 else f"{count / 1e6:.1f}M"
