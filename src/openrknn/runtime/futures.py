"""Results of runs in other threads: futures that programs with an event loop can await."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

_T = TypeVar("_T")


class RunFuture(Future[_T]):
    """A `concurrent.futures.Future`; `await` waits for it without blocking the event loop."""

    def __await__(self) -> Generator[Any, None, _T]:
        import asyncio  # here: few await, and its import is a tenth of that of a session

        return asyncio.wrap_future(self).__await__()


def submit(executor: Executor, function: Callable[..., _T], *arguments: object, **options: Any) -> RunFuture[_T]:
    """Run the function in a thread of the executor."""
    future = executor.submit(function, *arguments, **options)
    future.__class__ = RunFuture  # executors make plain futures, and nothing else; the fields are the same
    assert isinstance(future, RunFuture)
    return future
