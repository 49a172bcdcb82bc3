"""OpenAI's way to say things: errors, events, lists of models."""

from __future__ import annotations

import json
from typing import Any

from openrknn.serve.errors import ServeError
from openrknn.serve.voice.voice import Voice

__all__ = ["PREFIX", "error_words", "event", "failed_event", "model_words"]

PREFIX = "/v1/"
_CODES = {401: "invalid_api_key", 404: "not_found", 413: "too_large", 429: "rate_limit_exceeded", 503: "not_ready"}


def error_words(status: int, message: str) -> dict[str, Any]:
    """What clients of OpenAI take for an error."""
    kind = "rate_limit_error" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": _CODES.get(status)}}


def event(words: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(words, ensure_ascii=False).encode() + b"\n\n"


def failed_event(error: ServeError) -> bytes:
    """The last event of an answer that went wrong after it had begun."""
    return event({"type": "error", **error_words(error.status, str(error))})


def model_words(voice: Voice, created: float) -> dict[str, Any]:
    """A row of /v1/models."""
    return {
        "id": voice.name,
        "object": "model",
        "created": int(created),
        "owned_by": voice.found.source or "openrknn",
        "kind": voice.kind,
        "language": voice.language,
        "rate": voice.rate,
        "speakers": voice.speakers,
        "licence": voice.found.licence,
    }
