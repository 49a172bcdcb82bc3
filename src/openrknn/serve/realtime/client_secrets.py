"""POST /v1/realtime/client_secrets: a key with which a browser opens a session, and the settings of that session."""

from __future__ import annotations

import secrets
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from openrknn.serve.client_secrets import REALTIME
from openrknn.serve.errors import BadRequestError
from openrknn.serve.plane.plane import Plane
from openrknn.serve.realtime.config import SessionConfig, updated
from openrknn.serve.rest.body import read_body
from openrknn.serve.rest.infer import load_json

__all__ = ["client_secrets_route"]

_MOST_BYTES = 1 << 20
_LEAST_SECONDS, _USUAL_SECONDS, _MOST_SECONDS = 10, 600, 7200


def client_secrets_route(plane: Plane) -> Route:
    """For the router."""

    async def create(request: Request) -> Response:
        body = await read_body(request, plane.settings.limits, _MOST_BYTES)
        words = load_json(body) if body else {}
        config = updated(SessionConfig(plane.voices.find("", "transcriber")), words.get("session"), plane.voices)
        key, until = plane.client_secrets.make(config, _seconds(words.get("expires_after")))
        session = {
            "id": f"sess_{secrets.token_hex(12)}", "object": "realtime.transcription_session", "expires_at": until,
            **config.words(is_old=False),
        }  # fmt: skip
        return JSONResponse({"value": key, "expires_at": until, "session": session})

    return Route(f"{REALTIME}/client_secrets", create, methods=["POST"])


def _seconds(words: Any) -> int:
    if words is None:
        return _USUAL_SECONDS
    if not isinstance(words, dict) or words.get("anchor", "created_at") != "created_at":
        raise BadRequestError("'expires_after' is an object with the anchor 'created_at'").about("expires_after")
    value = words.get("seconds", _USUAL_SECONDS)
    if type(value) is not int or not _LEAST_SECONDS <= value <= _MOST_SECONDS:
        raise BadRequestError(f"'seconds' is a number from {_LEAST_SECONDS} to {_MOST_SECONDS}").about(
            "expires_after.seconds"
        )
    return value
