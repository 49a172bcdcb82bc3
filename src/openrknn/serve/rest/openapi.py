"""The OpenAPI description of the REST half."""

from __future__ import annotations

from typing import Any

from openrknn.serve.datatypes import DATATYPES
from openrknn.serve.plane.describe import version
from openrknn.serve.rest.openapi_llm import llm_paths, llm_schemas
from openrknn.serve.rest.openapi_triton import load_body, triton_paths, triton_schemas, unload_body
from openrknn.serve.rest.openapi_vision import vision_paths, vision_schemas
from openrknn.serve.rest.openapi_voice import voice_paths, voice_schemas

__all__ = ["description"]

_Words = dict[str, Any]


def description(*, has_token: bool) -> _Words:
    """For `/openapi.json`."""
    words: _Words = {
        "openapi": "3.1.0",
        "info": {
            "title": "openrknn serve",
            "version": version(),
            "description": "Open Inference Protocol v2 for .rknn models, pictures, and voices and text as OpenAI's.",
        },
        "paths": {**_paths(), **triton_paths(), **voice_paths(), **llm_paths(), **vision_paths()},
        "components": {
            "schemas": {**_SCHEMAS, **triton_schemas(), **voice_schemas(), **llm_schemas(), **vision_schemas()}
        },
    }
    if has_token:
        words["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        words["security"] = [{"token": []}]
        for path in ("/v2/health/live", "/v2/health/ready"):
            words["paths"][path]["get"]["security"] = []
    return words


def _paths() -> _Words:
    paths: _Words = {
        "/v2": {"get": _get("About the server", _object("name", "version", extensions=_list(_TEXT)))},
        "/v2/health/live": {"get": _get("Whether it runs", {"type": "object"})},
        "/v2/health/ready": {"get": _get("Whether everything that was asked for can answer", {"type": "object"})},
        "/v2/models/stats": {"get": _get("Statistics of all models", {"type": "object"})},
        "/v2/repository/index": {
            "post": _post("What there is", _json({"type": "object", "properties": {"ready": {"type": "boolean"}}}),
                          {"type": "array", "items": _reference("IndexEntry")}, needs_body=False)
        },
        "/metrics": {"get": {"summary": "For Prometheus", "responses": {"200": {"description": "Metrics", "content": {
            "text/plain": {"schema": _TEXT}}}, "default": _ERROR}}},
    }  # fmt: skip
    for action, text, body in (
        ("load", "Load a model, or load it again; with another configuration, or from files", load_body()),
        ("unload", "Unload a model", unload_body()),
    ):
        path = f"/v2/repository/models/{{name}}/{action}"
        paths[path] = {
            "parameters": [_NAME],
            "post": _post(text, _json(body), {"type": "object"}, needs_body=False),
        }
    for base, names in (
        ("/v2/models/{name}", [_NAME]),
        ("/v2/models/{name}/versions/{version}", [_NAME, _VERSION]),
    ):
        for path, operation in _model_paths():
            paths[base + path] = {"parameters": names, **operation}
    return paths


def _model_paths() -> list[tuple[str, _Words]]:
    image = _post(
        "What is in a picture",
        {kind: {"schema": {"type": "string", "format": "binary"}} for kind in ("image/jpeg", "image/png")},
        _reference("ImageResponse"),
    )
    image["responses"]["200"]["content"]["image/jpeg"] = {"schema": {"type": "string", "format": "binary"}}
    image["parameters"] = [
        _query("threshold", "Leave out what has a lower score", {"type": "number", "minimum": 0, "maximum": 1}),
        _query("top", "How many classes", {"type": "integer", "minimum": 1, "maximum": 1000}),
        _query("output", "JSON, or the picture with what was found", {"type": "string", "enum": ["json", "picture"]}),
        _query("reader", "For a finder of text: the model that reads it", _TEXT),
    ]
    infer = _post("Run a model", _json(_reference("InferRequest")), _reference("InferResponse"))
    for part in (infer["requestBody"], infer["responses"]["200"]):
        part["content"]["application/octet-stream"] = {"schema": {"type": "string", "format": "binary"}}
    infer["parameters"] = [
        {"name": "Inference-Header-Content-Length", "in": "header", "schema": {"type": "integer", "minimum": 0},
         "description": "Bytes of JSON before the tensors, where these come as bytes behind it"},
    ]  # fmt: skip
    return [
        ("", {"get": _get("What a model takes and gives", _reference("ModelMetadata"))}),
        ("/ready", {"get": _get("Whether a model can answer", {"type": "object"})}),
        ("/config", {"get": _get("How a model is served", {"type": "object"})}),
        ("/stats", {"get": _get("Counts and times of a model", {"type": "object"})}),
        ("/infer", {"post": infer}),
        ("/image", {"post": image}),
    ]


_TEXT: _Words = {"type": "string"}
_ERROR: _Words = {
    "description": "Why not",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
}
_NAME: _Words = {
    "name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1},
    "description": "A model of the repository",
}  # fmt: skip
_VERSION: _Words = {
    "name": "version", "in": "path", "required": True, "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,17}$"},
}  # fmt: skip


def _reference(name: str) -> _Words:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: _Words) -> _Words:
    return {"type": "array", "items": items}


def _object(*texts: str, **others: _Words) -> _Words:
    properties: _Words = {**dict.fromkeys(texts, _TEXT), **others}
    return {"type": "object", "properties": properties, "required": [*properties]}


def _json(schema: _Words) -> _Words:
    return {"application/json": {"schema": schema}}


def _query(name: str, text: str, schema: _Words) -> _Words:
    return {"name": name, "in": "query", "description": text, "schema": schema}


def _get(text: str, schema: _Words) -> _Words:
    answer = {"description": text, "content": _json(schema)}
    return {"summary": text, "responses": {"200": answer, "default": _ERROR}}


def _post(text: str, body: _Words, schema: _Words, *, needs_body: bool = True) -> _Words:
    return {**_get(text, schema), "requestBody": {"required": needs_body, "content": body}}


_TENSOR = _object("name", datatype={"type": "string"}, shape=_list({"type": "integer"}))
_MEMORY: _Words = {
    "shared_memory_region": {"type": "string"},
    "shared_memory_offset": {"type": "integer", "minimum": 0},
    "shared_memory_byte_size": {"type": "integer", "minimum": 0},
}
_TENSOR_PARAMETERS: _Words = {"type": "object", "properties": {
    "binary_data_size": {"type": "integer", "minimum": 0}, "layout": {"type": "string"}, **_MEMORY,
}}  # fmt: skip
_OUTPUT_PARAMETERS: _Words = {"type": "object", "properties": {
    "binary_data": {"type": "boolean"}, "classification": {"type": "integer", "minimum": 0}, **_MEMORY,
}}  # fmt: skip
_SCHEMAS: _Words = {
    "Error": _object("error"),
    "ModelMetadata": _object("name", "platform", versions=_list(_TEXT), inputs=_list(_TENSOR), outputs=_list(_TENSOR)),
    "IndexEntry": _object("name", "version", "state", "reason"),
    "InferRequest": {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": _TEXT,
            "parameters": {"type": "object", "properties": {
                "priority": {"type": "integer", "minimum": 0, "description": "1 is the highest"},
                "timeout": {"type": "integer", "minimum": 0, "description": "Microseconds"},
                "binary_data_output": {"type": "boolean"},
                "raw_outputs": {"type": "boolean", "description": "Stored elements instead of floats"},
            }},
            "inputs": {"type": "array", "minItems": 1, "items": {
                "type": "object",
                "required": ["name", "datatype", "shape"],
                "properties": {
                    "name": _TEXT,
                    "datatype": {"type": "string", "enum": list(DATATYPES)},
                    "shape": _list({"type": "integer", "minimum": 1}),
                    "data": {"type": "array"},
                    "parameters": _TENSOR_PARAMETERS,
                },
            }},
            "outputs": _list({
                "type": "object", "required": ["name"], "properties": {"name": _TEXT, "parameters": _OUTPUT_PARAMETERS},
            }),
        },
    },
    "InferResponse": _object("model_name", "model_version", outputs=_list(_TENSOR)),
    "ImageResponse": _object(
        "model_name", "model_version", "task", "family",
        width={"type": "integer"}, height={"type": "integer"},
        found=_list({"type": "object"}), notes=_list(_TEXT), milliseconds={"type": "object"},
    ),
}  # fmt: skip
