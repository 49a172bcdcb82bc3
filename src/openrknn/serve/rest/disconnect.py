"""Work that ends when its client goes away."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import Request

from openrknn.serve.rest.body import ClientGoneError

__all__ = ["unless_gone"]

T = TypeVar("T")


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Wait for the work, and give it up when the client goes away."""
    # The work stays in the task that asks: another task would cost as much as all else that is done here.
    asking = asyncio.current_task()
    assert asking is not None
    is_gone = False

    async def watch() -> None:
        nonlocal is_gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        asking.cancel()

    watching = asyncio.ensure_future(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if not is_gone:
            raise
        if sys.version_info >= (3, 11):
            asking.uncancel()
        raise ClientGoneError from None
    finally:
        watching.cancel()
