"""The part of the OpenAPI description that is about voices: /v1, as OpenAI describes it, as far as it is here."""

from __future__ import annotations

from typing import Any

from openrknn.serve.voice.encode import FORMATS

__all__ = ["voice_paths", "voice_schemas"]

_Words = dict[str, Any]
_TEXT: _Words = {"type": "string"}
_BYTES: _Words = {"type": "string", "format": "binary"}
_ERROR: _Words = {
    "description": "Why not",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/VoiceError"}}},
}


def voice_paths() -> _Words:
    """Paths and what can be done with them."""
    model = {"name": "model", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    session = {"name": "session", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    recording = {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/TranscriptionRequest"}}}
    texts = {"application/json": _reference("Transcription"), "text/plain": {"schema": _TEXT},
             "text/vtt": {"schema": _TEXT}, "text/event-stream": {"schema": _TEXT}}  # fmt: skip
    sound = {kind: {"schema": _BYTES} for kind in (*FORMATS.values(), "text/event-stream")}
    return {
        "/v1/models": {"get": _operation("The language models and voices that are served", _json({"type": "object"}))},
        "/v1/models/{model}": {"parameters": [model], "get": _operation("One of them", _reference_of("Voice"))},
        "/v1/audio/transcriptions": {"post": _operation("The text of a recording", texts, recording)},
        "/v1/audio/translations": {
            "post": _operation("A recording in English text, by a voice that translates", texts, recording)
        },
        "/v1/audio/speech": {
            "post": _operation("A text, spoken", sound, _reference_of("SpeechRequest"))
        },
        "/v1/audio/live": {
            "parameters": [
                {"name": "model", "in": "query", "schema": _TEXT, "description": "A voice for speech to text"},
                {"name": "rate", "in": "query", "schema": {"type": "integer", "minimum": 4000, "maximum": 384000},
                 "description": "Samples a second of what will be sent"},
                {"name": "language", "in": "query", "schema": _TEXT, "description": "Its code; else it is detected"},
                {"name": "task", "in": "query", "schema": {"enum": ["transcribe", "translate"]}},
            ],
            "post": _operation("Begin to listen", _json({"type": "object", "required": ["id"]})),
        },
        "/v1/audio/live/{session}": {
            "parameters": [session],
            "post": {
                **_operation("16-bit samples; what is heard by now", _reference_of("LiveText"),
                             {"application/octet-stream": {"schema": _BYTES}}),
                "parameters": [{"name": "end", "in": "query", "schema": {"enum": ["0", "1"]},
                                "description": "1: these are the last ones"}],
            },
            "delete": _operation("Stop listening", _json({"type": "object"})),
        },
    }  # fmt: skip


def voice_schemas() -> _Words:
    """What goes in and what comes out."""
    number = {"type": "number"}
    error = _object(message=_TEXT, type=_TEXT, param={}, code={})
    usage = {"type": "object"}
    return {
        "VoiceError": _object(error=error),
        "Voice": _object(id=_TEXT, object=_TEXT, created={"type": "integer"}, owned_by=_TEXT, kind=_TEXT),
        "Transcription": {
            "type": "object",
            "required": ["text"],
            "properties": {"text": _TEXT, "language": _TEXT, "duration": number, "usage": usage,
                           "segments": {"type": "array", "items": {"type": "object"}}},
        },
        "TranscriptionRequest": {
            "type": "object",
            "required": ["file", "model"],
            "properties": {
                "file": _BYTES, "model": _TEXT, "language": _TEXT, "prompt": _TEXT, "temperature": number,
                "response_format": {"enum": ["json", "text", "srt", "verbose_json", "vtt", "diarized_json"]},
                "stream": {"type": "boolean"},
                "timestamp_granularities[]": {"type": "array", "items": {"enum": ["segment", "word"]}},
                "include[]": {"type": "array", "items": {"enum": ["logprobs"]}},
                "chunking_strategy": {},
                "known_speaker_names[]": {"type": "array", "items": _TEXT},
                "known_speaker_references[]": {"type": "array", "items": _TEXT},
            },
        },
        "SpeechRequest": {
            "type": "object",
            "required": ["model", "input", "voice"],
            "properties": {
                "model": _TEXT, "input": {"type": "string", "maxLength": 4096}, "voice": _TEXT,
                "response_format": {"enum": [*FORMATS]},
                "speed": {"type": "number", "minimum": 0.25, "maximum": 4},
                "stream_format": {"enum": ["audio", "sse"]},
            },
        },
        "LiveText": _object(
            text=_TEXT, seconds=number, segments={"type": "array", "items": {"type": "object"}},
            done={"type": "boolean"},
        ),
    }  # fmt: skip


def _object(**properties: _Words) -> _Words:
    return {"type": "object", "properties": properties, "required": [*properties]}


def _reference(name: str) -> _Words:
    return {"schema": {"$ref": f"#/components/schemas/{name}"}}


def _reference_of(name: str) -> _Words:
    return {"application/json": _reference(name)}


def _json(schema: _Words) -> _Words:
    return {"application/json": {"schema": schema}}


def _operation(text: str, answers: _Words, body: _Words | None = None) -> _Words:
    words: _Words = {
        "summary": text,
        "responses": {"200": {"description": "Done", "content": answers}, "default": _ERROR},
    }
    if body is not None:
        words["requestBody"] = {"required": True, "content": body}
    return words
