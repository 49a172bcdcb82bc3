"""/v1/completions and /v1/embeddings as OpenAI's clients use them."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse

from openrknn.llm.generation.events import Statistics
from openrknn.serve.errors import BadRequestError, ModelFailedError, ServeError
from openrknn.serve.llm.language import Language
from openrknn.serve.llm.words import Piece, Row
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest.asked import MOST_CHOICES, choice_words, format_of, generation_request
from openrknn.serve.rest.disconnect import unless_gone
from openrknn.serve.rest.fields import Fields
from openrknn.serve.rest.generating import EVENT_HEADERS, client_of, counted, merged, read_fields, usage
from openrknn.serve.rest.known_fields import COMPLETIONS, EMBEDDINGS, check_known
from openrknn.serve.rest.openai import event, failed_event

__all__ = ["Completions", "embedded", "prompts_of"]

_USUAL_TOKENS = 16
"""The default of OpenAI's server."""
_MANY = 1_000_000
_MOST_TOP = 20
_MOST_TEXTS = 2048

Prompt = str | list[int]


@dataclass(slots=True)
class _Choice:
    prompt: int
    text: list[str] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    finish: str | None = None
    statistics: Statistics = field(default_factory=Statistics)

    def take(self, row: Row) -> None:
        self.text.append(row.text)
        if row.piece is not None:
            self.pieces.append(row.piece)
        if row.finish is not None:
            self.finish, self.statistics = row.finish, row.statistics or Statistics()


@dataclass(frozen=True, slots=True)
class _Answer:
    model: str
    logprobs: int | None
    with_usage: bool
    identity: str = field(default_factory=lambda: f"cmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def words(self, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        return {
            "id": self.identity, "object": "text_completion", "created": self.created, "model": self.model,
            "choices": choices, "system_fingerprint": "openrknn", **more,
        }  # fmt: skip


class Completions:
    """The routes."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def completions(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        check_known(fields, COMPLETIONS)
        language = self._plane.languages.find(fields.raw("model") or "")
        prompts, count = prompts_of(fields, "prompt"), fields.integer("n", 1, 1, MOST_CHOICES)
        echo = fields.flag("echo")
        logprobs = fields.integer("logprobs", None, 0, _MOST_TOP)
        _check(fields, prompts, echo=echo, logprobs=logprobs)
        most = fields.integer("max_tokens", _USUAL_TOKENS, 1, _MANY)
        wanted = generation_request(fields, most=most, logprobs=logprobs, constraint=format_of(fields))
        choices = [_Choice(number) for number in range(len(prompts)) for _ in range(count)]
        client = client_of(request)
        language.check_room(client, len(choices))
        streams = [
            language.generate({"prompt": prompts[one.prompt], "request": choice_words(wanted, number % count)}, client)
            for number, one in enumerate(choices)
        ]
        if echo:
            for one in choices:
                one.text.append(str(prompts[one.prompt]))
        rows = counted(self._plane, merged(streams))
        answer = _Answer(language.name, logprobs, fields.inside("stream_options").flag("include_usage"))
        if not fields.flag("stream"):
            await unless_gone(request, _collect(rows, choices))
            made = [
                _row(number, "".join(one.text), one.finish, _logprobs(answer, one.pieces, 0))
                for number, one in enumerate(choices)
            ]
            return JSONResponse(answer.words(made, usage=_usage(choices)))
        first = await unless_gone(request, anext(rows))
        return StreamingResponse(
            _events(first, rows, choices, answer), media_type="text/event-stream", headers=EVENT_HEADERS
        )

    async def embeddings(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        check_known(fields, EMBEDDINGS)
        language = self._plane.languages.find(fields.raw("model") or "")
        texts = prompts_of(fields, "input")
        form = fields.text("encoding_format", "float")
        if form not in ("float", "base64"):
            raise BadRequestError("'encoding_format' is float or base64")
        client = client_of(request)
        language.check_room(client)
        vectors, tokens = await unless_gone(request, embedded(self._plane, language, client, texts))
        size = fields.integer("dimensions", None, 1, _MANY)
        if size is not None and size != len(vectors[0]):
            raise BadRequestError(f"'dimensions': {language.name!r} gives {len(vectors[0])} numbers, not {size}")
        rows = [
            {"object": "embedding", "index": number, "embedding": _encoded(one) if form == "base64" else one}
            for number, one in enumerate(vectors)
        ]
        told = {"prompt_tokens": tokens, "total_tokens": tokens}
        return JSONResponse({"object": "list", "data": rows, "model": language.name, "usage": told})


async def embedded(
    plane: Plane, language: Language, client: str, texts: list[Prompt], *, truncate: bool = False
) -> tuple[list[list[float]], int]:
    """The vectors of some texts, and how many tokens they have together."""
    plane.under_way += 1
    try:
        vectors, tokens = [], 0
        for text in texts:
            answer = await language.ask("embed", client, prompt=text, truncate=truncate)
            vector, count = answer.get("embedding"), answer.get("tokens")
            if not isinstance(vector, list) or not isinstance(count, int):
                raise ModelFailedError("the model gave no embedding")
            vectors.append([float(one) for one in vector])
            tokens += count
        language.stats.successes += 1
        language.stats.prompt_tokens += tokens
        return vectors, tokens
    finally:
        plane.under_way -= 1


def prompts_of(fields: Fields, name: str) -> list[Prompt]:
    """A text, several, a list of tokens, or several of these."""
    given = fields.raw(name)
    some = [given] if isinstance(given, str) or (isinstance(given, list) and _is_tokens(given)) else given
    if not isinstance(some, list) or not some or not all(isinstance(one, str) or _is_tokens(one) for one in some):
        raise BadRequestError(f"{name!r} is a text, a list of texts, or tokens")
    if len(some) > _MOST_TEXTS:
        raise BadRequestError(f"{name!r} has {len(some)} texts; {_MOST_TEXTS} are taken at a time")
    return some


def _is_tokens(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) is int and 0 <= one < 2**31 for one in value)


def _check(fields: Fields, prompts: list[Prompt], *, echo: bool, logprobs: int | None) -> None:
    if fields.raw("suffix"):
        raise BadRequestError("'suffix' is not known here: the models continue a text, they do not fill it in")
    if fields.integer("best_of", 1, 1, MOST_CHOICES) > 1:
        raise BadRequestError("'best_of' above 1 is not known here; 'n' gives several texts")
    if echo and (logprobs is not None or any(not isinstance(one, str) for one in prompts)):
        raise BadRequestError("'echo' repeats a prompt that is text, without log-probabilities")


async def _collect(rows: AsyncGenerator[tuple[int, Row]], choices: list[_Choice]) -> None:
    async with aclosing(rows):
        async for number, row in rows:
            choices[number].take(row)


async def _events(
    first: tuple[int, Row], rows: AsyncGenerator[tuple[int, Row]], choices: list[_Choice], answer: _Answer
) -> AsyncIterator[bytes]:
    more: dict[str, Any] = {"usage": None} if answer.with_usage else {}
    for number, choice in enumerate(choices):
        if choice.text:  # what `echo` put there
            yield event(answer.words([_row(number, choice.text[0], None, None)], **more))
    try:
        async with aclosing(rows):
            number, row = first
            while True:
                choice = choices[number]
                offset = sum(map(len, choice.text))
                choice.take(row)
                if row.text or row.piece is not None or row.finish is not None:
                    pieces = [row.piece] if row.piece is not None else []
                    words = _row(number, row.text, row.finish, _logprobs(answer, pieces, offset))
                    yield event(answer.words([words], **more))
                try:
                    number, row = await anext(rows)
                except StopAsyncIteration:
                    break
    except ServeError as error:
        yield failed_event(error)
        return
    if answer.with_usage:
        yield event(answer.words([], usage=_usage(choices)))
    yield b"data: [DONE]\n\n"


def _logprobs(answer: _Answer, pieces: list[Piece], offset: int) -> dict[str, Any] | None:
    if answer.logprobs is None:
        return None
    offsets = []
    for piece in pieces:
        offsets.append(offset)
        offset += len(piece.text)
    return {
        "tokens": [piece.text for piece in pieces],
        "token_logprobs": [piece.logprob for piece in pieces],
        "top_logprobs": [{one.text: one.logprob for one in piece.top} for piece in pieces],
        "text_offset": offsets,
    }


def _row(number: int, text: str, finish: str | None, logprobs: dict[str, Any] | None) -> dict[str, Any]:
    return {"index": number, "text": text, "logprobs": logprobs, "finish_reason": finish}


def _usage(choices: list[_Choice]) -> dict[str, Any]:
    """Each prompt counts once."""
    by_prompt: dict[int, list[Statistics]] = {}
    for one in choices:
        by_prompt.setdefault(one.prompt, []).append(one.statistics)
    rows = [usage(some) for some in by_prompt.values()]
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    cached = sum(row["prompt_tokens_details"]["cached_tokens"] for row in rows)
    sums = {name: sum(row[name] for row in rows) for name in names}
    return {**sums, "prompt_tokens_details": {"cached_tokens": cached}}


def _encoded(vector: list[float]) -> str:
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()
