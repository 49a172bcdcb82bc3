"""The OpenAPI description of Triton's extensions: shared memory, settings, loading with files."""

from __future__ import annotations

from typing import Any

__all__ = ["load_body", "triton_paths", "triton_schemas", "unload_body"]

_Words = dict[str, Any]
_TEXT: _Words = {"type": "string"}
_FLAG: _Words = {"type": "boolean"}
_BYTES: _Words = {"type": "integer", "minimum": 0}
_ERROR: _Words = {
    "description": "Why not",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}


def triton_paths() -> _Words:
    """By path."""
    memory, regions = "/v2/systemsharedmemory", {"type": "array", "items": _reference("SharedMemoryRegion")}
    name = [_path("region", "A name that the client chose")]
    model = [_path("name", "A model of the repository")]
    status = _operation("Registered regions of shared memory", regions)
    gone = _operation("Forget regions of shared memory", {"type": "object"}, {"type": "object"}, needs_body=False)
    register = _operation("Register a region of shared memory", {"type": "object"}, _reference("SharedMemoryKey"))
    trace = {
        "get": _operation("What is traced", _reference("TraceSettings")),
        "post": _operation("Trace something else", _reference("TraceSettings"), _reference("TraceChanges")),
    }
    return {
        f"{memory}/status": {"get": status},
        f"{memory}/region/{{region}}/status": {"parameters": name, "get": status},
        f"{memory}/region/{{region}}/register": {"parameters": name, "post": register},
        f"{memory}/unregister": {"post": gone},
        f"{memory}/region/{{region}}/unregister": {"parameters": name, "post": gone},
        "/v2/trace/setting": trace,
        "/v2/models/{name}/trace/setting": {"parameters": model, **trace},
        "/v2/logging": {
            "get": _operation("What is logged", _reference("LogSettings")),
            "post": _operation("Log something else", _reference("LogSettings"), _reference("LogChanges")),
        },
    }


def triton_schemas() -> _Words:
    """By name."""
    numbers = ("trace_rate", "trace_count", "log_frequency")
    flags = ("log_info", "log_warning", "log_error")
    change: _Words = {"type": ["string", "integer", "null"]}
    level: _Words = {"type": "array", "items": {"type": "string", "enum": ["OFF", "TIMESTAMPS"]}}
    logs: _Words = {
        **dict.fromkeys(flags, _FLAG),
        "log_verbose_level": {"type": "integer", "minimum": 0},
        "log_format": {"type": "string", "enum": ["default", "ISO8601"]},
    }
    return {
        "SharedMemoryKey": _object({"key": _TEXT, "offset": _BYTES, "byte_size": _BYTES}, ["key", "byte_size"]),
        "SharedMemoryRegion": _object({"name": _TEXT, "key": _TEXT, "offset": _BYTES, "byte_size": _BYTES}),
        "TraceSettings": _object(
            {"trace_level": level, "trace_file": _TEXT, "trace_mode": _TEXT, **dict.fromkeys(numbers, _TEXT)}
        ),
        "TraceChanges": _object(
            {"trace_level": {"oneOf": [level, {"type": "null"}]}, **dict.fromkeys(numbers, change)}, []
        ),
        "LogSettings": _object({"log_file": _TEXT, **logs}),
        "LogChanges": _object(logs, []),
    }


def load_body() -> _Words:
    """Of a load request."""
    files = {"type": "string", "contentEncoding": "base64", "description": "file:VERSION/NAME or file:NAME"}
    parameters = {
        "type": "object",
        "properties": {"config": {"type": "string", "description": "JSON of a Triton model configuration"}},
        "additionalProperties": files,
    }
    return {"type": "object", "properties": {"parameters": parameters}}


def unload_body() -> _Words:
    """Of an unload request."""
    parameters = {"type": "object", "properties": {"unload_dependents": _FLAG}}
    return {"type": "object", "properties": {"parameters": parameters}}


def _reference(name: str) -> _Words:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(properties: _Words, required: list[str] | None = None) -> _Words:
    return {"type": "object", "properties": properties, "required": [*properties] if required is None else required}


def _path(name: str, text: str) -> _Words:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema, "description": text}


def _operation(text: str, answer: _Words, body: _Words | None = None, *, needs_body: bool = True) -> _Words:
    content = {"application/json": {"schema": answer}}
    made: _Words = {"summary": text, "responses": {"200": {"description": text, "content": content}, "default": _ERROR}}
    if body is not None:
        made["requestBody"] = {"required": needs_body, "content": {"application/json": {"schema": body}}}
    return made
