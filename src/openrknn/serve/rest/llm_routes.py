"""Routes of language models, and the list of everything that can be asked by name under /v1."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from openrknn.serve.errors import NotFoundError
from openrknn.serve.llm.language import Language
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest import ollama
from openrknn.serve.rest.chat import Chat
from openrknn.serve.rest.completions import Completions
from openrknn.serve.rest.openai import model_words
from openrknn.serve.rest.responses import route as responses

__all__ = ["routes"]


def routes(plane: Plane) -> list[Route]:
    """OpenAI's paths for text, /v1/models, and Ollama's."""
    models, chat, completions = _Models(plane), Chat(plane), Completions(plane)
    return [
        Route("/v1/chat/completions", chat.completions, methods=["POST"]),
        Route("/v1/completions", completions.completions, methods=["POST"]),
        Route("/v1/embeddings", completions.embeddings, methods=["POST"]),
        *responses.routes(plane),
        Route("/v1/models", models.models),
        Route("/v1/models/{model:path}", models.model),
        *ollama.routes(plane),
    ]


class _Models:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def _rows(self) -> list[dict[str, Any]]:
        plane = self._plane
        return [
            *(_words(one) for one in plane.languages.all()),
            *(model_words(name, one, plane.started) for name, one in plane.voices.names().items()),
        ]

    async def models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": self._rows()})

    async def model(self, request: Request) -> Response:
        name = request.path_params["model"]
        for row in self._rows():
            if row["id"] == name:
                return JSONResponse(row)
        raise NotFoundError(f"there is no model or voice {name[:80]!r}; /v1/models lists what there is")


def _words(one: Language) -> dict[str, Any]:
    card = one.card
    return {
        "id": one.name, "object": "model", "created": int(one.loaded), "owned_by": "openrknn", "kind": "language",
        "architecture": card.architecture, "parameters": card.parameters, "context_length": card.capacity,
        "quantisation": card.quantisation, "licence": card.licence, "notice": card.notice,
        "can_chat": card.can_chat, "can_embed": card.can_embed,
    }  # fmt: skip
