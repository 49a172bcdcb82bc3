"""OpenAI's way to say things: errors, events, lists of models."""

from __future__ import annotations

import json
from typing import Any

from openrknn.serve.errors import ServeError
from openrknn.serve.voice.voice import Voice

__all__ = ["NO_BUFFERING", "PREFIX", "error_words", "event", "failed_event", "model_words"]

PREFIX = "/v1/"
NO_BUFFERING = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Proxies that collect an answer would make a stream of it useless."""
_CODES = {401: "invalid_api_key", 404: "not_found", 413: "too_large", 429: "rate_limit_exceeded", 503: "not_ready"}


def error_words(status: int, message: str, param: str | None = None, reason: str | None = None) -> dict[str, Any]:
    """What clients of OpenAI take for an error."""
    kind = "rate_limit_error" if status == 429 else "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": reason or _CODES.get(status)}}


def event(words: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(words, ensure_ascii=False).encode() + b"\n\n"


def failed_event(error: ServeError) -> bytes:
    """The last event of an answer that went wrong after it had begun."""
    return event({"type": "error", **error_words(error.status, str(error), error.param, error.reason)})


def model_words(name: str, voice: Voice, created: float) -> dict[str, Any]:
    """A row of /v1/models."""
    return {
        "id": name,
        "object": "model",
        "created": int(created),
        "owned_by": voice.found.source or "openrknn",
        "kind": voice.kind,
        "language": voice.language,
        "languages": voice.languages,
        "tasks": voice.tasks,
        "rate": voice.rate,
        "speakers": voice.speakers,
        "licence": voice.found.licence,
    }
