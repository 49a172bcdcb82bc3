"""What all answers of language models share: reading requests, merging choices, counting tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request

from openrknn.llm.generation.events import Statistics
from openrknn.serve.llm.words import Piece, TokenLogprob
from openrknn.serve.plane.clients import client_key
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest.extensions import small_json
from openrknn.serve.rest.fields import Fields

__all__ = ["EVENT_HEADERS", "client_of", "counted", "logprob_words", "merged", "read_fields", "usage"]

T = TypeVar("T")
EVENT_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}
"""Proxies that collect an answer would make a stream of it useless."""
_JSON_BYTES = 8 << 20


async def read_fields(request: Request, plane: Plane) -> Fields:
    """The body, which is a JSON object."""
    return Fields(await small_json(request, plane.settings.limits, _JSON_BYTES))


def client_of(request: Request) -> str:
    """Whose requests are counted together."""
    return client_key(request.client.host if request.client is not None else "")


async def counted(plane: Plane, rows: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """The server drains for as long as somebody is being answered."""
    plane.under_way += 1
    try:
        async with aclosing(rows):
            async for row in rows:
                yield row
    finally:
        plane.under_way -= 1


def usage(numbers: Sequence[Statistics]) -> dict[str, Any]:
    """Tokens of an answer with several choices for one prompt."""
    prompt = max((one.prompt_tokens for one in numbers), default=0)
    reused = numbers[0].reused_tokens if numbers else 0
    written = sum(one.generated_tokens for one in numbers)
    return {
        "prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": reused},
    }  # fmt: skip


def logprob_words(one: Piece) -> dict[str, Any]:
    """A token, its log-probability, and what could have come instead."""
    return {**_token(one), "top_logprobs": [_token(other) for other in one.top]}


def _token(one: TokenLogprob) -> dict[str, Any]:
    return {"token": one.text, "logprob": one.logprob, "bytes": list(one.data)}


async def merged(streams: Sequence[AsyncGenerator[T]]) -> AsyncGenerator[tuple[int, T]]:
    """(which stream, what it gave) as it arrives. Closing it closes all of them."""
    if len(streams) == 1:  # no tasks: what most requests are
        async with aclosing(streams[0]) as only:
            async for one in only:
                yield 0, one
        return
    found: asyncio.Queue[tuple[int, T] | BaseException | None] = asyncio.Queue()

    async def pump(number: int, stream: AsyncGenerator[T]) -> None:
        try:
            async with aclosing(stream):
                async for one in stream:
                    found.put_nowait((number, one))
        except Exception as error:  # noqa: BLE001 - raised where the answer is written
            found.put_nowait(error)
        else:
            found.put_nowait(None)

    tasks = [asyncio.ensure_future(pump(number, stream)) for number, stream in enumerate(streams)]
    try:
        left = len(tasks)
        while left:
            what = await found.get()
            if isinstance(what, BaseException):
                raise what
            if what is None:
                left -= 1
            else:
                yield what
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
