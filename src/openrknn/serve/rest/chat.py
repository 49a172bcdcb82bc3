"""/v1/chat/completions as OpenAI's clients use it."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse

from openrknn.llm.generation.events import Statistics
from openrknn.llm.generation.toolcalls import ToolCall
from openrknn.serve.errors import BadRequestError, ServeError
from openrknn.serve.llm.language import Language
from openrknn.serve.llm.words import Row
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest.asked import (
    MOST_CHOICES,
    chat_logprobs,
    choice_words,
    format_of,
    generation_request,
    messages_of,
    template_options,
    tools_of,
)  # fmt: skip
from openrknn.serve.rest.disconnect import unless_gone
from openrknn.serve.rest.generating import (
    EVENT_HEADERS,
    client_of,
    counted,
    logprob_words,
    merged,
    read_fields,
    usage,
)  # fmt: skip
from openrknn.serve.rest.known_fields import CHAT, check_known
from openrknn.serve.rest.openai import event, failed_event
from openrknn.serve.rest.told import Part, Told

__all__ = ["Chat"]

_MANY = 1_000_000


@dataclass(slots=True)
class _Choice:
    """What was written of one choice."""

    told: Told
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    finish: str = ""
    statistics: Statistics = field(default_factory=Statistics)

    def take(self, row: Row) -> Part:
        """What this row completes."""
        part = self.told.take(row)
        if row.piece is not None:
            self.logprobs.append(logprob_words(row.piece))
        if row.finish is not None:
            self.finish = "tool_calls" if self.told.calls else row.finish
            self.statistics = row.statistics or Statistics()
        return part


@dataclass(frozen=True, slots=True)
class _Answer:
    """What all parts of one answer have in common."""

    model: str
    has_logprobs: bool
    with_usage: bool
    identity: str = field(default_factory=lambda: f"chatcmpl-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def words(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        return {
            "id": self.identity, "object": kind, "created": self.created, "model": self.model, "choices": choices,
            "system_fingerprint": "openrknn", **more,
        }  # fmt: skip


class Chat:
    """The route."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    async def completions(self, request: HttpRequest) -> Response:
        fields = await read_fields(request, self._plane)
        check_known(fields, CHAT)
        language = self._plane.languages.find(fields.raw("model") or "")
        count = fields.integer("n", 1, 1, MOST_CHOICES)
        tools, logprobs = tools_of(fields), chat_logprobs(fields)
        constraint = tools.constraint or format_of(fields)
        most = fields.integer("max_completion_tokens", None, 1, _MANY) or fields.integer("max_tokens", None, 1, _MANY)
        wanted = generation_request(fields, most=most, logprobs=logprobs, constraint=constraint)
        words = {
            "messages": messages_of(fields), "tools": list(tools.given) or None,
            "options": template_options(fields, language, fields.raw("reasoning_effort")),
        }  # fmt: skip
        client = client_of(request)
        rows = self._rows(language, client, [{**words, "request": choice_words(wanted, one)} for one in range(count)])
        most_calls = None if fields.flag("parallel_tool_calls", default=True) else 1
        is_constrained = constraint is not None
        choices = [_Choice(Told(tools.names, most_calls, is_constrained)) for _ in range(count)]
        with_usage = fields.inside("stream_options").flag("include_usage")
        answer = _Answer(language.name, logprobs is not None, with_usage)
        if not fields.flag("stream"):
            if fields.raw("stream_options") is not None:
                raise BadRequestError("'stream_options' is for answers with 'stream': true")
            await unless_gone(request, _collect(rows, choices))
            return JSONResponse(_whole(answer, choices))
        # The first row comes before the answer begins: what is wrong with the request has a status of its own.
        first = await unless_gone(request, anext(rows))
        return StreamingResponse(
            _events(first, rows, choices, answer), media_type="text/event-stream", headers=EVENT_HEADERS
        )

    def _rows(
        self, language: Language, client: str, requests: list[dict[str, Any]]
    ) -> AsyncGenerator[tuple[int, Row]]:
        language.check_room(client, len(requests))
        return counted(self._plane, merged([language.generate(one, client) for one in requests]))


async def _collect(rows: AsyncGenerator[tuple[int, Row]], choices: list[_Choice]) -> None:
    async with aclosing(rows):
        async for number, row in rows:
            choices[number].take(row)


def _whole(answer: _Answer, choices: list[_Choice]) -> dict[str, Any]:
    made = []
    for number, choice in enumerate(choices):
        told = choice.told
        message: dict[str, Any] = {"role": "assistant", "content": told.text, "refusal": None}
        if told.thought:
            message["reasoning_content"] = told.thought
        if told.calls:
            message["content"] = told.text or None
            message["tool_calls"] = [_call(call) for call in told.all_calls]
        logprobs = {"content": choice.logprobs, "refusal": None} if answer.has_logprobs else None
        made.append({"index": number, "message": message, "logprobs": logprobs, "finish_reason": choice.finish})
    return answer.words("chat.completion", made, usage=_usage(choices))


def _usage(choices: list[_Choice]) -> dict[str, Any]:
    words = usage([one.statistics for one in choices])
    thought = sum(one.told.thought_tokens for one in choices)
    return {**words, "completion_tokens_details": {"reasoning_tokens": thought}}


async def _events(
    first: tuple[int, Row], rows: AsyncGenerator[tuple[int, Row]], choices: list[_Choice], answer: _Answer
) -> AsyncIterator[bytes]:
    more: dict[str, Any] = {"usage": None} if answer.with_usage else {}

    def chunk(number: int, delta: dict[str, Any], finish: str | None = None, logprobs: Any = None) -> bytes:
        row = {"index": number, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return event(answer.words("chat.completion.chunk", [row], **more))

    for number in range(len(choices)):
        yield chunk(number, {"role": "assistant", "content": ""})
    try:
        async with aclosing(rows):
            number, row = first
            while True:
                choice = choices[number]
                known = choice.told.calls
                part = choice.take(row)
                told = None
                if answer.has_logprobs and row.piece is not None:
                    told = {"content": [logprob_words(row.piece)], "refusal": None}
                delta = {"reasoning_content": part.thought} if part.thought else {}
                if part.text or (told is not None and not delta):
                    delta["content"] = part.text
                if delta:
                    yield chunk(number, delta, logprobs=told)
                for place, call in enumerate(part.calls, known):
                    yield chunk(number, {"tool_calls": [{"index": place, **_call(call)}]})
                if row.finish is not None:
                    yield chunk(number, {}, choice.finish)
                try:
                    number, row = await anext(rows)
                except StopAsyncIteration:
                    break
    except ServeError as error:
        yield failed_event(error)
        return
    if answer.with_usage:
        yield event(answer.words("chat.completion.chunk", [], usage=_usage(choices)))
    yield b"data: [DONE]\n\n"


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}
