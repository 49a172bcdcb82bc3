"""The part of the OpenAPI description that is about language models: OpenAI's paths and Ollama's."""

from __future__ import annotations

from typing import Any

__all__ = ["llm_paths", "llm_schemas"]

_Words = dict[str, Any]
_TEXT: _Words = {"type": "string"}
_ANY: _Words = {"type": "object"}
_NUMBER: _Words = {"type": "number"}
_MESSAGES: _Words = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["role"],
        "properties": {"role": {"enum": ["system", "user", "assistant", "tool"]}, "content": _TEXT},
    },
}
_COMMON: _Words = {
    "model": _TEXT, "stream": {"type": "boolean"}, "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1}, "seed": {"type": "integer"},
    "n": {"type": "integer", "minimum": 1, "maximum": 16}, "max_tokens": {"type": "integer", "minimum": 1},
    "stop": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}, "presence_penalty": _NUMBER,
    "frequency_penalty": _NUMBER, "logit_bias": _ANY, "response_format": _ANY, "stream_options": _ANY,
}  # fmt: skip
_OLLAMA: _Words = {
    "model": _TEXT, "stream": {"type": "boolean"}, "format": {"anyOf": [{"enum": ["json", ""]}, _ANY]},
    "options": _ANY, "keep_alive": {"anyOf": [_TEXT, _NUMBER]}, "think": {"anyOf": [{"type": "boolean"}, _TEXT]},
}  # fmt: skip


def llm_paths() -> _Words:
    """Paths and what can be done with them."""
    events = {"text/event-stream": {"schema": _TEXT}}
    lines = {"application/x-ndjson": {"schema": _TEXT}}
    return {
        "/v1/chat/completions": {"post": _operation("Answer a chat", "ChatRequest", "OpenAiError", events)},
        **_response_paths(events),
        "/v1/completions": {"post": _operation("Continue a text", "CompletionRequest", "OpenAiError", events)},
        "/v1/embeddings": {"post": _operation("Texts as vectors", "EmbeddingRequest", "OpenAiError")},
        "/api/chat": {"post": _operation("Answer a chat, as Ollama does", "OllamaChat", "Error", lines)},
        "/api/generate": {"post": _operation("Answer a prompt, as Ollama does", "OllamaGenerate", "Error", lines)},
        "/api/embed": {"post": _operation("Texts as vectors", "OllamaEmbed", "Error")},
        "/api/embeddings": {"post": _operation("A text as a vector", "OllamaEmbeddings", "Error")},
        "/api/show": {"post": _operation("What a model is", "OllamaShow", "Error")},
        "/api/pull": {"post": _operation("Whether a model is here; nothing is got", "OllamaShow", "Error", lines)},
        "/api/tags": {"get": _operation("The language models", None, "Error")},
        "/api/ps": {"get": _operation("Those that are loaded", None, "Error")},
        "/api/version": {"get": _operation("The version of openrknn", None, "Error")},
    }


def _response_paths(events: _Words) -> _Words:
    """/v1/responses."""
    identity = {"name": "response_id", "in": "path", "required": True, "schema": _TEXT}

    def stored(text: str) -> _Words:
        return {**_operation(text, None, "OpenAiError"), "parameters": [identity]}

    one = "/v1/responses/{response_id}"
    return {
        "/v1/responses": {"post": _operation("Answer input items", "ResponseRequest", "OpenAiError", events)},
        "/v1/responses/input_tokens": {"post": _operation("Count tokens", "ResponseRequest", "OpenAiError")},
        one: {"get": stored("A response that is stored"), "delete": stored("Delete a response")},
        f"{one}/cancel": {"post": stored("Cancel a response in the background")},
        f"{one}/input_items": {"get": stored("The input items of a response")},
    }


def llm_schemas() -> _Words:
    """What goes in."""
    text_or_texts = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
    error = {
        "type": "object", "required": ["message", "type"],
        "properties": {"message": _TEXT, "type": _TEXT, "param": {}, "code": {}},
    }  # fmt: skip
    return {
        "OpenAiError": {"type": "object", "required": ["error"], "properties": {"error": error}},
        "ChatRequest": _object(
            ["messages"], messages=_MESSAGES, tools={"type": "array", "items": _ANY}, tool_choice={},
            max_completion_tokens={"type": "integer", "minimum": 1}, logprobs={"type": "boolean"},
            top_logprobs={"type": "integer", "minimum": 0, "maximum": 20}, reasoning_effort=_TEXT,
            parallel_tool_calls={"type": "boolean"}, chat_template_kwargs=_ANY, **_COMMON,
        ),
        "ResponseRequest": _object(
            ["input"], model=_TEXT, input={"anyOf": [_TEXT, {"type": "array", "items": _ANY}]}, instructions=_TEXT,
            previous_response_id=_TEXT, max_output_tokens={"type": "integer", "minimum": 1}, text=_ANY, reasoning=_ANY,
            tools={"type": "array", "items": _ANY}, tool_choice={}, parallel_tool_calls={"type": "boolean"},
            truncation={"enum": ["auto", "disabled"]}, store={"type": "boolean"}, background={"type": "boolean"},
            include={"type": "array", "items": _TEXT}, top_logprobs={"type": "integer", "minimum": 0, "maximum": 20},
            metadata=_ANY, stream={"type": "boolean"}, temperature=_COMMON["temperature"], top_p=_COMMON["top_p"],
        ),
        "CompletionRequest": _object(
            ["prompt"], prompt=text_or_texts, echo={"type": "boolean"},
            logprobs={"type": "integer", "minimum": 0, "maximum": 20}, **_COMMON,
        ),
        "EmbeddingRequest": _object(
            ["input"], model=_TEXT, input=text_or_texts, encoding_format={"enum": ["float", "base64"]},
            dimensions={"type": "integer", "minimum": 1},
        ),
        "OllamaChat": _object([], messages=_MESSAGES, tools={"type": "array", "items": _ANY}, **_OLLAMA),
        "OllamaGenerate": _object([], prompt=_TEXT, system=_TEXT, raw={"type": "boolean"}, **_OLLAMA),
        "OllamaEmbed": _object(["input"], model=_TEXT, input=text_or_texts, truncate={"type": "boolean"}),
        "OllamaEmbeddings": _object(["prompt"], model=_TEXT, prompt=_TEXT),
        "OllamaShow": _object([], model=_TEXT),
    }  # fmt: skip


def _object(required: list[str], **properties: _Words) -> _Words:
    return {"type": "object", "required": required, "properties": properties}


def _operation(text: str, body: str | None, error: str, more: _Words | None = None) -> _Words:
    answers = {"application/json": {"schema": _ANY}, **(more or {})}
    reason = {"application/json": {"schema": {"$ref": f"#/components/schemas/{error}"}}}
    words: _Words = {
        "summary": text,
        "responses": {
            "200": {"description": "Done", "content": answers},
            "default": {"description": "Why not", "content": reason},
        },
    }
    if body is not None:
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{body}"}}}
        words["requestBody"] = {"required": True, "content": content}
    return words
