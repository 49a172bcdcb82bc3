"""Ollama's interface, for Open WebUI, Home Assistant and other programs that know it: chats, texts, embeddings."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime, timezone
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from openrknn.llm.generation.constraint import Constraint
from openrknn.llm.generation.events import Statistics
from openrknn.llm.generation.request import Request
from openrknn.llm.generation.sampling import Sampling
from openrknn.llm.generation.toolcalls import ToolCall
from openrknn.serve.errors import BadRequestError, ServeError
from openrknn.serve.llm.language import Language
from openrknn.serve.llm.words import Row, request_words
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest import ollama_models
from openrknn.serve.rest.asked import messages_of, thinking_options, tools_of
from openrknn.serve.rest.completions import embedded, prompts_of
from openrknn.serve.rest.disconnect import unless_gone
from openrknn.serve.rest.fields import Fields
from openrknn.serve.rest.generating import EVENT_HEADERS, client_of, counted, read_fields
from openrknn.serve.rest.known_fields import (
    OLLAMA_CHAT,
    OLLAMA_EMBED,
    OLLAMA_GENERATE,
    Known,
    check_known,
    check_options,
)  # fmt: skip
from openrknn.serve.rest.ollama_options import keep_seconds, option_warnings
from openrknn.serve.rest.told import Told

__all__ = ["routes"]

_MANY = 1_000_000
_CONTEXTS = 10
"""How often the context may fill up with an answer that has no limit of its own."""
_MOST_SEED = 2**63
_MOST_STOPS = 16
_NANOSECONDS = 1e9


def routes(plane: Plane) -> list[Route]:
    """Ollama's paths."""
    mine = _Ollama(plane)
    return [
        Route("/api/chat", mine.chat, methods=["POST"]),
        Route("/api/generate", mine.generate, methods=["POST"]),
        Route("/api/embed", mine.embed, methods=["POST"]),
        Route("/api/embeddings", mine.embeddings, methods=["POST"]),
        *ollama_models.routes(plane),
    ]


class _Ollama:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    # -- texts ---------------------------------------------------------------------------------------------------

    async def chat(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        language, extra = self._start(request, fields, OLLAMA_CHAT)
        if fields.raw("messages") in (None, []):
            return await self._load(request, language, {"message": _message("")})
        tools, wanted = tools_of(fields), _wanted(fields, language)
        thinking = thinking_options(fields.raw("think"), language, "think")
        words = {
            "messages": messages_of(fields), "tools": list(tools.given) or None, "options": thinking,
            "request": request_words(wanted),
        }  # fmt: skip
        told = Told(tools.names, is_constrained=wanted.constraint is not None)
        return await self._answered(request, fields, language, words, _ChatForm(told, extra))

    async def generate(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        language, extra = self._start(request, fields, OLLAMA_GENERATE)
        prompt, system = fields.text("prompt"), fields.text("system")
        if not prompt:
            return await self._load(request, language, {"response": ""})
        for name in ("suffix", "images", "template", "context"):
            if fields.raw(name):
                raise BadRequestError(f"{name!r} is not known here; send 'messages' to /api/chat, or 'raw': true")
        wanted = _wanted(fields, language)
        words: dict[str, Any] = {"request": request_words(wanted)}
        thinking = thinking_options(fields.raw("think"), language, "think")
        is_raw = fields.flag("raw") or not language.card.can_chat
        if is_raw:
            words["prompt"] = prompt
        else:
            head = [{"role": "system", "content": system}] if system else []
            words |= {"messages": [*head, {"role": "user", "content": prompt}], "options": thinking}
        told = Told(is_constrained=is_raw or wanted.constraint is not None)
        return await self._answered(request, fields, language, words, _TextForm(told, extra))

    def _start(self, request: HttpRequest, fields: Fields, known: Known) -> tuple[Language, dict[str, Any]]:
        """The model, and what the end of the answer says beside the numbers."""
        check_known(fields, known)
        check_options(fields)
        language = self._plane.languages.find(fields.raw("model") or "")
        warnings = option_warnings(fields, language)
        seconds = keep_seconds(fields.raw("keep_alive"))
        language.check_room(client_of(request))
        if seconds is None or self._plane.settings.allow_repository:
            language.idle.keep(seconds)
        elif seconds >= 0:
            warnings.append("keep_alive: no effect; this server was started with --fixed")
        return language, {"warnings": warnings} if warnings else {}

    async def _load(self, request: HttpRequest, language: Language, words: dict[str, Any]) -> Response:
        """To load a model, or to unload it, and nothing else."""
        reason = "load" if language.idle.seconds else "unload"
        if language.idle.seconds:
            await unless_gone(request, language.load())
        await language.settle()
        return JSONResponse({**_head(language), **words, "done": True, "done_reason": reason})

    async def _answered(
        self, request: HttpRequest, fields: Fields, language: Language, words: dict[str, Any], form: _TextForm
    ) -> Response:
        form.load_seconds = await unless_gone(request, language.load())
        rows = counted(self._plane, language.generate(words, client_of(request)))
        if fields.flag("stream", default=True):
            first = await unless_gone(request, anext(rows))
            lines = _lines(first, rows, language, form)
            return StreamingResponse(lines, media_type="application/x-ndjson", headers=EVENT_HEADERS)
        last = await unless_gone(request, _collect(rows, form))
        return JSONResponse({**_head(language), **form.joined(), **form.end(last)})

    # -- embeddings ----------------------------------------------------------------------------------------------

    async def embed(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        language, extra = self._start(request, fields, OLLAMA_EMBED)
        texts = prompts_of(fields, "input")
        truncate = fields.flag("truncate", default=True)
        made = embedded(self._plane, language, client_of(request), texts, truncate=truncate)
        vectors, tokens = await unless_gone(request, made)
        size = fields.integer("dimensions", None, 1, _MANY)
        if size is not None and size != len(vectors[0]):
            raise BadRequestError(f"'dimensions': {language.name!r} gives {len(vectors[0])} numbers, not {size}")
        return JSONResponse({"model": language.name, "embeddings": vectors, "prompt_eval_count": tokens, **extra})

    async def embeddings(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        language, extra = self._start(request, fields, OLLAMA_EMBED)
        texts = prompts_of(fields, "prompt")
        made = embedded(self._plane, language, client_of(request), texts[:1], truncate=True)
        vectors, _ = await unless_gone(request, made)
        return JSONResponse({"embedding": vectors[0], **extra})


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


# -- answers ---------------------------------------------------------------------------------------------------------


class _TextForm:
    """How /api/generate says it."""

    def __init__(self, told: Told, extra: dict[str, Any]) -> None:
        self.told, self._extra = told, extra
        self.load_seconds = 0.0

    def part(self, row: Row) -> dict[str, Any] | None:
        """What goes out because of this row; None: nothing yet."""
        part = self.told.take(row)
        return self.words(part.thought, part.text, part.calls) if part else None

    def words(self, thought: str, text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
        """Thoughts and text."""
        del calls
        return {"response": text, **({"thinking": thought} if thought else {})}

    def joined(self) -> dict[str, Any]:
        """All of it."""
        return self.words(self.told.thought, self.told.text, self.told.all_calls)


    def end(self, row: Row) -> dict[str, Any]:
        """Times are nanoseconds."""
        numbers = row.statistics or Statistics()
        rest = max(0.0, numbers.total_seconds - numbers.first_seconds)
        total = self.load_seconds + numbers.total_seconds
        return {
            "done": True, "done_reason": row.finish, "total_duration": int(total * _NANOSECONDS),
            "load_duration": int(self.load_seconds * _NANOSECONDS), "prompt_eval_count": numbers.prompt_tokens,
            "prompt_eval_duration": int(numbers.prompt_seconds * _NANOSECONDS),
            "eval_count": numbers.generated_tokens, "eval_duration": int(rest * _NANOSECONDS), **self._extra,
        }  # fmt: skip


class _ChatForm(_TextForm):
    """The form of /api/chat; tool calls are sent when they are complete."""

    def words(self, thought: str, text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
        message = {**_message(text), **({"thinking": thought} if thought else {})}
        if calls:
            message["tool_calls"] = [
                {"function": {"name": call.name, "arguments": _object(call.arguments)}} for call in calls
            ]
        return {"message": message}


async def _collect(rows: AsyncGenerator[Row], form: _TextForm) -> Row:
    last = Row("")
    async with aclosing(rows):
        async for last in rows:
            form.part(last)
    return last


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
                    yield line({**form.words("", "", ()), **form.end(row)})
                    return
                row = await anext(rows)
    except ServeError as error:
        yield json.dumps({"error": str(error)}).encode() + b"\n"


def _head(language: Language) -> dict[str, Any]:
    return {"model": language.name, "created_at": datetime.now(timezone.utc).isoformat()}


def _message(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def _object(arguments: str) -> Any:
    try:
        found = json.loads(arguments)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
