"""Ollama's interface, for Open WebUI, Home Assistant and other programs that know it: chats, texts, embeddings."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import datetime, timedelta, timezone
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from openrknn.llm.generation.constraint import Constraint
from openrknn.llm.generation.events import Statistics
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.llm.generation.toolcalls import ToolText
from openrknn.serve.errors import BadRequestError, ServeError
from openrknn.serve.llm.language import Language
from openrknn.serve.llm.words import Row, request_words
from openrknn.serve.plane.describe import version
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest.asked import messages_of, tools_of
from openrknn.serve.rest.completions import embedded, prompts_of
from openrknn.serve.rest.disconnect import unless_gone
from openrknn.serve.rest.fields import Fields
from openrknn.serve.rest.generating import EVENT_HEADERS, counted, read_fields

__all__ = ["routes"]

_MANY = 1_000_000
_CONTEXTS = 10
"""How often the context may fill up with an answer that has no limit of its own."""
_MOST_SEED = 2**63
_MOST_STOPS = 16
_FOREVER = timedelta(days=36500)
_KEEP_ALIVE = re.compile(r"-?\d+(\.\d+)?(ns|us|ms|s|m|h)?(\d+(ms|s|m))*")
_NANOSECONDS = 1e9


def routes(plane: Plane) -> list[Route]:
    """Ollama's paths."""
    mine = _Ollama(plane)
    return [
        Route("/api/chat", mine.chat, methods=["POST"]),
        Route("/api/generate", mine.generate, methods=["POST"]),
        Route("/api/embed", mine.embed, methods=["POST"]),
        Route("/api/embeddings", mine.embeddings, methods=["POST"]),
        Route("/api/show", mine.show, methods=["POST"]),
        Route("/api/tags", mine.tags),
        Route("/api/ps", mine.running),
        Route("/api/version", mine.version),
    ]


class _Ollama:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    # -- about models --------------------------------------------------------------------------------------------

    async def version(self, _: HttpRequest) -> Response:
        return JSONResponse({"version": version()})

    async def tags(self, _: HttpRequest) -> Response:
        return JSONResponse({"models": [_tag(one) for one in self._plane.languages.all()]})

    async def running(self, _: HttpRequest) -> Response:
        until = (datetime.now(timezone.utc) + _FOREVER).isoformat()
        rows = [
            {**_tag(one), "expires_at": until, "size_vram": one.found.size_bytes, "context_length": one.card.capacity}
            for one in self._plane.languages.all()
        ]
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
            "capabilities": [*abilities, *(["tools"] if "tools" in card.template else [])],
        })  # fmt: skip

    # -- texts ---------------------------------------------------------------------------------------------------

    async def chat(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        language = self._start(fields)
        if fields.raw("messages") in (None, []):  # to load a model, and nothing else
            return JSONResponse({**_head(language), "message": _message(""), "done": True, "done_reason": "load"})
        tools = tools_of(fields)
        words = {
            "messages": messages_of(fields), "tools": list(tools.given) or None, "options": _thinking(fields),
            "request": request_words(_wanted(fields, language)),
        }  # fmt: skip
        return await self._answered(request, fields, language, words, _ChatForm(tools.names))

    async def generate(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        language = self._start(fields)
        prompt, system = fields.text("prompt"), fields.text("system")
        if not prompt:
            return JSONResponse({**_head(language), "response": "", "done": True, "done_reason": "load"})
        for name in ("suffix", "images", "template", "context"):
            if fields.raw(name):
                raise BadRequestError(f"{name!r} is not known here; send 'messages' to /api/chat, or 'raw': true")
        words: dict[str, Any] = {"request": request_words(_wanted(fields, language))}
        if fields.flag("raw") or not language.card.can_chat:
            words["prompt"] = prompt
        else:
            head = [{"role": "system", "content": system}] if system else []
            words |= {"messages": [*head, {"role": "user", "content": prompt}], "options": _thinking(fields)}
        return await self._answered(request, fields, language, words, _TextForm())

    def _start(self, fields: Fields) -> Language:
        language = self._plane.languages.find(fields.raw("model") or "")
        _check_keep_alive(fields.raw("keep_alive"))
        language.check_room()
        return language

    async def _answered(
        self, request: HttpRequest, fields: Fields, language: Language, words: dict[str, Any], form: _TextForm
    ) -> Response:
        rows = counted(self._plane, language.generate(words))
        if fields.flag("stream", default=True):
            first = await unless_gone(request, anext(rows))
            lines = _lines(first, rows, language, form)
            return StreamingResponse(lines, media_type="application/x-ndjson", headers=EVENT_HEADERS)
        parts, last = await unless_gone(request, _collect(rows, form))
        return JSONResponse({**_head(language), **form.joined(parts), **_end(last)})

    # -- embeddings ----------------------------------------------------------------------------------------------

    async def embed(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        language = self._start(fields)
        texts = prompts_of(fields, "input")
        truncate = fields.flag("truncate", default=True)
        vectors, tokens = await unless_gone(request, embedded(self._plane, language, texts, truncate=truncate))
        size = fields.integer("dimensions", None, 1, _MANY)
        if size is not None and size != len(vectors[0]):
            raise BadRequestError(f"'dimensions': {language.name!r} gives {len(vectors[0])} numbers, not {size}")
        return JSONResponse({"model": language.name, "embeddings": vectors, "prompt_eval_count": tokens})

    async def embeddings(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        language = self._start(fields)
        texts = prompts_of(fields, "prompt")
        vectors, _ = await unless_gone(request, embedded(self._plane, language, texts[:1], truncate=True))
        return JSONResponse({"embedding": vectors[0]})


# -- requests --------------------------------------------------------------------------------------------------------


def _wanted(fields: Fields, language: Language) -> Request:
    """options, with Ollama's names and defaults."""
    options = fields.inside("options")
    most = options.integer("num_predict", -1, -2, _MANY)
    window = options.integer("repeat_last_n", 64, -1, _MANY)
    seed = options.integer("seed", None, -_MOST_SEED, _MOST_SEED)
    sampling = Sampling(
        temperature=options.number("temperature", 0.8, 0.0, 100.0),
        top_k=max(0, options.integer("top_k", 40, -1, _MANY)),
        top_p=options.number("top_p", 0.9, 0.0, 1.0),
        min_p=options.number("min_p", 0.0, 0.0, 1.0),
        repetition_penalty=options.number("repeat_penalty", 1.1, 0.01, 100.0) if window else 1.0,
        repetition_window=max(0, window),
        presence_penalty=options.number("presence_penalty", 0.0, -100.0, 100.0),
        frequency_penalty=options.number("frequency_penalty", 0.0, -100.0, 100.0),
        seed=seed,
    )
    return Request(
        sampling=sampling,
        max_tokens=most if most > 0 else _CONTEXTS * language.card.capacity if most == -1 else None,
        stop=options.texts("stop", _MOST_STOPS),
        constraint=_format(fields.raw("format")),
        shift=most == -1,
        keep=max(0, options.integer("num_keep", 4, -1, _MANY)),
    )


def _format(given: Any) -> Constraint | None:
    if given is None or given == "":
        return None
    if given == "json":
        return Constraint("json")
    if isinstance(given, dict):
        return Constraint.json_schema(given)
    raise BadRequestError("'format' is \"json\" or a JSON schema")


def _thinking(fields: Fields) -> dict[str, Any]:
    """Templates of models that think have a switch for it."""
    think = fields.raw("think")
    if think is None:
        return {}
    if not isinstance(think, bool | str):
        raise BadRequestError("'think' is true, false or a level")
    return {"enable_thinking": bool(think)}


def _check_keep_alive(value: Any) -> None:
    """Taken for what it is, and without effect: a model stays for as long as its server."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not is_number and not (isinstance(value, str) and _KEEP_ALIVE.fullmatch(value)):
        raise BadRequestError("'keep_alive' is a number of seconds or a text such as '5m'")


# -- answers ---------------------------------------------------------------------------------------------------------


class _TextForm:
    """How /api/generate says it."""

    def part(self, row: Row) -> dict[str, Any] | None:
        """What goes out because of this row; None: nothing yet."""
        return {"response": row.text} if row.text else None

    def last(self) -> dict[str, Any]:
        return {"response": ""}

    def joined(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        return {"response": "".join(part["response"] for part in parts)}


class _ChatForm(_TextForm):
    """How /api/chat says it; calls of tools are told when they are complete."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._tools = ToolText(names) if names else None

    def part(self, row: Row) -> dict[str, Any] | None:
        if self._tools is None:
            return {"message": _message(row.text)} if row.text else None
        text, calls = self._tools.feed(row.text)
        if row.finish is not None:
            more, rest = self._tools.finish()
            text, calls = text + more, calls + rest
        if not text and not calls:
            return None
        message = _message(text)
        if calls:
            message["tool_calls"] = [
                {"function": {"name": call.name, "arguments": _object(call.arguments)}} for call in calls
            ]
        return {"message": message}

    def last(self) -> dict[str, Any]:
        return {"message": _message("")}

    def joined(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        message = _message("".join(part["message"]["content"] for part in parts))
        calls = [call for part in parts for call in part["message"].get("tool_calls", ())]
        return {"message": {**message, "tool_calls": calls} if calls else message}


async def _collect(rows: AsyncGenerator[Row], form: _TextForm) -> tuple[list[dict[str, Any]], Row]:
    parts, last = [], Row("")
    async with aclosing(rows):
        async for last in rows:
            part = form.part(last)
            if part is not None:
                parts.append(part)
    return parts, last


async def _lines(
    first: Row, rows: AsyncGenerator[Row], language: Language, form: _TextForm
) -> AsyncIterator[bytes]:  # fmt: skip
    def line(words: dict[str, Any]) -> bytes:
        return json.dumps({**_head(language), **words}, ensure_ascii=False).encode() + b"\n"

    try:
        async with aclosing(rows):
            row = first
            while True:
                part = form.part(row)
                if part is not None:
                    yield line({**part, "done": False})
                if row.finish is not None:
                    yield line({**form.last(), **_end(row)})
                    return
                row = await anext(rows)
    except ServeError as error:
        yield json.dumps({"error": str(error)}).encode() + b"\n"


def _head(language: Language) -> dict[str, Any]:
    return {"model": language.name, "created_at": datetime.now(timezone.utc).isoformat()}


def _end(row: Row) -> dict[str, Any]:
    """Times are nanoseconds."""
    numbers = row.statistics or Statistics()
    rest = max(0.0, numbers.total_seconds - numbers.first_seconds)
    return {
        "done": True, "done_reason": row.finish, "total_duration": int(numbers.total_seconds * _NANOSECONDS),
        "load_duration": 0, "prompt_eval_count": numbers.prompt_tokens,
        "prompt_eval_duration": int(numbers.prompt_seconds * _NANOSECONDS),
        "eval_count": numbers.generated_tokens, "eval_duration": int(rest * _NANOSECONDS),
    }  # fmt: skip


def _message(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _object(arguments: str) -> Any:
    try:
        found = json.loads(arguments)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


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
