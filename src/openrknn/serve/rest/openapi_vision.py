"""The part of the OpenAPI description that is about /v1/vision, as DeepStack and CodeProject.AI have it."""

from __future__ import annotations

from typing import Any

__all__ = ["vision_paths", "vision_schemas"]

_Words = dict[str, Any]
_TEXT: _Words = {"type": "string"}
_WHOLE: _Words = {"type": "integer"}
_ERROR: _Words = {
    "description": "Why not",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/VoiceError"}}},
}


def vision_paths() -> _Words:
    """Paths and what can be done with them."""
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
    return {
        "/v1/vision/detection": {"post": _operation("Objects in an image, by the first detector that is served")},
        "/v1/vision/custom/{name}": {"parameters": [name], "post": _operation("Objects in an image, by this model")},
    }


def _operation(text: str) -> _Words:
    form = {"multipart/form-data": {"schema": {"$ref": "#/components/schemas/DetectionRequest"}}}
    answer = {"application/json": {"schema": {"$ref": "#/components/schemas/Detections"}}}
    return {
        "summary": text,
        "requestBody": {"required": True, "content": form},
        "responses": {"200": {"description": "Done", "content": answer}, "default": _ERROR},
    }


def vision_schemas() -> _Words:
    """What goes in and what comes out."""
    box = {
        "label": _TEXT, "confidence": {"type": "number"}, "x_min": _WHOLE, "y_min": _WHOLE, "x_max": _WHOLE,
        "y_max": _WHOLE,
    }  # fmt: skip
    answer = {
        "success": {"type": "boolean"}, "code": _WHOLE, "count": _WHOLE, "inferenceMs": _WHOLE,
        "predictions": {"type": "array", "items": {"type": "object", "properties": box, "required": [*box]}},
    }  # fmt: skip
    return {
        "Detections": {"type": "object", "properties": answer, "required": [*answer]},
        "DetectionRequest": {
            "type": "object",
            "required": ["image"],
            "properties": {
                "image": {"type": "string", "format": "binary"},
                "min_confidence": {"type": "number", "minimum": 0, "maximum": 1},
                "api_key": _TEXT,
            },
        },
    }
