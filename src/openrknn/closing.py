"""A context manager that releases a resource with `close`."""

from __future__ import annotations

from types import TracebackType

from openrknn.backports import Self


class Closing:
    """`with` calls `close` at the end, whatever happened."""

    __slots__ = ()

    def close(self) -> None:
        """Give everything back. Closing twice is allowed."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClosing(Closing):
    """`Closing` for `async with`; closing may wait for what runs, so a thread does it and not the event loop."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import asyncio  # here: few need it, and its import is a tenth of that of a session

        await asyncio.to_thread(self.close)
