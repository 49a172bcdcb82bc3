"""Work that ends when its client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.requests import Request

from openrknn.serve.rest.body import ClientGoneError

__all__ = ["unless_gone"]

T = TypeVar("T")


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Wait for the work, and give it up when the client goes away."""
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_gone(request.receive))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGoneError
        return task.result()
    finally:
        for one in (task, watch):
            if not one.done():
                one.cancel()


async def _gone(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
