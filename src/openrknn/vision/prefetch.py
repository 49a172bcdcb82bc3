"""Reading ahead: the next pictures are read by a thread while the NPU works on the current ones."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")
_STEP_SECONDS = 0.1
"""How often a waiting thread looks whether it is still wanted."""


class _End:
    """What the thread puts last: nothing, or the error that ended it."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def prefetch(items: Iterable[Item], depth: int) -> Generator[Item, None, None]:
    """The items in their order, read up to `depth` ahead."""
    ready: queue.Queue[Item | _End] = queue.Queue(maxsize=depth)
    stop = threading.Event()
    thread = threading.Thread(
        target=_fill, args=(items, ready, stop), name="openrknn-prefetch", daemon=True
    )
    thread.start()
    try:
        while True:
            item = ready.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        stop.set()
        thread.join(timeout=1.0)  # a camera that hangs must not hang the program


def _fill(items: Iterable[Item], ready: queue.Queue[Item | _End], stop: threading.Event) -> None:
    error: BaseException | None = None
    try:
        for item in items:
            if not _put(ready, item, stop):
                break
    except BaseException as caught:  # noqa: BLE001 - it is raised again, in the thread that waits
        error = caught
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()
        _put(ready, _End(error), stop)


def _put(ready: queue.Queue[Item | _End], item: Item | _End, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            ready.put(item, timeout=_STEP_SECONDS)
        except queue.Full:
            continue
        return True
    return False
