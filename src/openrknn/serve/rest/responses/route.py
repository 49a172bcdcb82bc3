"""The paths below /v1/responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from openrknn.serve.errors import BadRequestError, ServeError
from openrknn.serve.llm.words import Row, request_words
from openrknn.serve.plane.plane import Plane
from openrknn.serve.rest.disconnect import unless_gone
from openrknn.serve.rest.fields import Fields
from openrknn.serve.rest.generating import EVENT_HEADERS, client_of, counted, read_fields
from openrknn.serve.rest.responses.asked import Asked, read_asked
from openrknn.serve.rest.responses.store import Store, Stored
from openrknn.serve.rest.responses.truncation import count_tokens, truncated
from openrknn.serve.rest.responses.written import Written

__all__ = ["routes"]

_MOST_LISTED = 100


def routes(plane: Plane) -> list[Route]:
    """All of them."""
    mine = _Responses(plane)
    one = "/v1/responses/{response}"
    return [
        Route("/v1/responses", mine.create, methods=["POST"]),
        Route("/v1/responses/input_tokens", mine.input_tokens, methods=["POST"]),
        Route(one, mine.retrieve, methods=["GET"]),
        Route(one, mine.delete, methods=["DELETE"]),
        Route(f"{one}/cancel", mine.cancel, methods=["POST"]),
        Route(f"{one}/input_items", mine.input_items, methods=["GET"]),
    ]


class _Responses:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._store = Store()

    def _read(self, fields: Fields) -> Asked:
        return read_asked(fields, self._plane.languages.find, self._store)

    async def create(self, request: HttpRequest) -> Response:
        asked = self._read(await read_fields(request, self._plane))
        client = client_of(request)
        asked.language.check_room(client)
        words = _template_words(asked)
        messages = asked.messages()
        if asked.truncates:
            work = truncated(asked.language, client, messages, asked.most_tokens, **words)
            messages = await unless_gone(request, work)
        question = {"messages": messages, "request": request_words(asked.request), **words}
        rows = counted(self._plane, asked.language.generate(question, client))
        written = asked.written()
        if asked.is_background:
            return JSONResponse(self._begin(asked, rows, written))
        if asked.is_stream:
            # The first row comes before the answer begins: what is wrong with the request has a status of its own.
            first = await unless_gone(request, anext(rows))
            events = self._events(asked, first, rows, written)
            return StreamingResponse(events, media_type="text/event-stream", headers=EVENT_HEADERS)
        await unless_gone(request, _collect(rows, written))
        return JSONResponse(self._done(asked, written))

    def _done(self, asked: Asked, written: Written) -> dict[str, Any]:
        words = asked.words("incomplete" if written.finish == "length" else "completed", written)
        if asked.is_stored:
            self._store.keep(Stored(words, asked.input))
        return words

    async def _events(
        self, asked: Asked, first: Row, rows: AsyncGenerator[Row], written: Written
    ) -> AsyncIterator[bytes]:
        number = 0

        def event(kind: str, **more: Any) -> bytes:
            nonlocal number
            data = json.dumps({"type": kind, "sequence_number": number, **more}, ensure_ascii=False)
            number += 1
            return f"event: {kind}\ndata: {data}\n\n".encode()

        for kind in ("created", "in_progress"):
            yield event(f"response.{kind}", response=asked.words("in_progress"))
        try:
            async with aclosing(rows):
                row = first
                while True:
                    for one in written.take(row):
                        yield event(one.pop("type"), **one)
                    if row.finish is not None:
                        break
                    row = await anext(rows)
        except ServeError as error:
            written.stop()
            words = asked.words("failed", written, error=_error(error))
            yield event("response.failed", response=words)
            return
        words = self._done(asked, written)
        yield event(f"response.{words['status']}", response=words)

    # -- in the background ---------------------------------------------------------------------------------------

    def _begin(self, asked: Asked, rows: AsyncGenerator[Row], written: Written) -> dict[str, Any]:
        stored = Stored(asked.words("queued"), asked.input)
        stored.task = asyncio.create_task(self._run(asked, rows, written, stored))
        self._store.keep(stored)
        return stored.words

    async def _run(self, asked: Asked, rows: AsyncGenerator[Row], written: Written, stored: Stored) -> None:
        error: dict[str, Any] | None = None
        status = "cancelled"
        try:
            async with aclosing(rows):
                async for row in rows:
                    written.take(row)
                    stored.words["status"] = "in_progress"
            status = "incomplete" if written.finish == "length" else "completed"
        except ServeError as failure:
            status, error = "failed", _error(failure)
        finally:
            written.stop()
            stored.task = None
            stored.words = asked.words(status, written, error=error)
            if self._store.is_kept(asked.identity):  # unless it was deleted meanwhile
                self._store.keep(stored)

    async def cancel(self, request: HttpRequest) -> Response:
        found = self._store.find(request.path_params["response"])
        if not found.words["background"]:
            raise BadRequestError("only responses with 'background': true can be cancelled; others end with the client")
        await _ended(found)
        return JSONResponse(found.words)

    # -- afterwards ----------------------------------------------------------------------------------------------

    async def retrieve(self, request: HttpRequest) -> Response:
        if request.query_params.get("stream", "false") != "false":
            raise BadRequestError("'stream': a response that is stored comes whole")
        return JSONResponse(self._store.find(request.path_params["response"]).words)

    async def delete(self, request: HttpRequest) -> Response:
        found = self._store.delete(request.path_params["response"])
        await _ended(found)
        return JSONResponse({"id": found.words["id"], "object": "response", "deleted": True})

    async def input_items(self, request: HttpRequest) -> Response:
        found = self._store.find(request.path_params["response"])
        limit, order = request.query_params.get("limit", "20"), request.query_params.get("order", "desc")
        if not (limit.isascii() and limit.isdigit() and len(limit) < 4 and 1 <= int(limit) <= _MOST_LISTED):
            raise BadRequestError(f"'limit' is a number from 1 to {_MOST_LISTED}")
        if order not in ("asc", "desc"):
            raise BadRequestError("'order' is asc or desc")
        items = list(found.input if order == "asc" else reversed(found.input))
        after = request.query_params.get("after")
        if after is not None:
            places = [number for number, one in enumerate(items) if one["id"] == after]
            if not places:
                raise BadRequestError(f"'after': the response has no input item {after!r:.80}")
            items = items[places[0] + 1 :]
        rows = items[: int(limit)]
        ends = {"first_id": rows[0]["id"], "last_id": rows[-1]["id"]} if rows else {"first_id": "", "last_id": ""}
        return JSONResponse({"object": "list", "data": rows, **ends, "has_more": len(items) > len(rows)})

    async def input_tokens(self, request: HttpRequest) -> Response:
        asked = self._read(await read_fields(request, self._plane))
        client = client_of(request)
        asked.language.check_room(client)
        work = count_tokens(asked.language, client, asked.messages(), **_template_words(asked))
        count = await unless_gone(request, work)
        return JSONResponse({"object": "response.input_tokens", "input_tokens": count})


def _template_words(asked: Asked) -> dict[str, Any]:
    return {"tools": list(asked.tools.given) or None, "options": asked.options}


async def _ended(stored: Stored) -> None:
    if stored.task is not None:
        stored.task.cancel()
        await asyncio.gather(stored.task, return_exceptions=True)
        if stored.task is not None:  # it had not begun
            stored.task = None
            stored.words["status"] = "cancelled"


async def _collect(rows: AsyncGenerator[Row], written: Written) -> None:
    async with aclosing(rows):
        async for row in rows:
            written.take(row)


def _error(error: ServeError) -> dict[str, Any]:
    kind = "rate_limit_exceeded" if error.status == 429 else "invalid_prompt" if error.status < 500 else "server_error"
    return {"code": kind, "message": str(error)}
