"""Work on several items at a time; results come in the order of the items, each as soon as it is there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from openrknn.vision.prefetch import prefetch

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def parallel(items: Iterable[Item], work: Callable[[Item], Outcome], workers: int) -> Generator[Outcome, None, None]:
    """`work` on each item, `workers` at a time.

    An item is taken only when a worker is free for it, so that of a live source it is the newest. Nobody waits for the
    next item to see the result of the last. If `items` raises, the results of the items before come first.
    """
    free = threading.Semaphore(workers)
    unseen = threading.Semaphore(workers + 1)  # one result may wait while its reader is busy with the one before
    stop = threading.Event()

    def begun(threads: ThreadPoolExecutor) -> Iterator[Future[Outcome]]:
        source = iter(items)
        try:
            while True:
                free.acquire()
                unseen.acquire()
                if stop.is_set():
                    return
                try:
                    item = next(source)
                except StopIteration:
                    return
                future = threads.submit(work, item)
                future.add_done_callback(lambda _: free.release())
                yield future
        finally:
            close = getattr(source, "close", None)
            if close is not None:
                close()

    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="openrknn-vision") as threads:
        futures = prefetch(begun(threads), workers + 1)
        try:
            for future in futures:
                yield future.result()
                unseen.release()
        finally:
            stop.set()
            free.release()
            unseen.release()
            futures.close()
