"""Asynchronous runs: one worker thread per context, one run at a time."""

from __future__ import annotations

import select
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from time import monotonic

from openrknn.capi.call import CallError, Code

_FENCE_MS = 10_000
"""How long a run waits for the fence of another unit, if the program does not say."""


class AsyncRuns:
    """The run in progress, if any. All methods are called with the lock of the context held."""

    def __init__(self) -> None:
        self._worker: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None

    @property
    def is_pending(self) -> bool:
        """A run was started, and its result has not been fetched."""
        return self._pending is not None

    def start(self, work: Callable[[], None]) -> None:
        """Begin a run; the one before has ended."""
        if self._worker is None:
            self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="openrknn-run")
        self._pending = self._worker.submit(work)

    def settle(self, timeout_ms: int = 0) -> None:
        """Wait for the run in progress; its error is raised here. After a timeout it goes on, and can be waited for."""
        pending = self._pending
        if pending is None:
            return
        try:
            pending.result(timeout_ms / 1000 if timeout_ms > 0 else None)
        except FutureTimeoutError:
            if not pending.done():
                raise CallError(Code.TIMEOUT, f"the run has not ended after {timeout_ms} ms; it goes on") from None
            raise
        finally:
            if pending.done():
                self._pending = None

    def rest(self) -> None:
        """Wait until nothing runs; whether it failed is still to be asked."""
        if self._pending is not None:
            wait([self._pending])

    def close(self) -> None:
        """Wait for the run in progress and ignore its error."""
        if self._worker is not None:
            self._worker.shutdown(wait=True, cancel_futures=True)
            self._worker = None
        self._pending = None


def wait_for_fence(descriptor: int, timeout_ms: int) -> None:
    """A fence of the kernel can be read (POLLIN) once the other unit is done."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    limit = timeout_ms if timeout_ms > 0 else _FENCE_MS
    began = monotonic()
    ready = poller.poll(limit)
    if not ready:
        raise CallError(Code.TIMEOUT, f"the fence was not signalled within {1000 * (monotonic() - began):.0f} ms")
    if ready[0][1] & (select.POLLERR | select.POLLNVAL):
        raise CallError(Code.PARAM_INVALID, "the fence is no fence, or the other unit failed")
