"""`JobQueue`: a bounded queue that says no at once."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from openrknn.serve.errors import DeadlineError, FullError, NotReadyError, ServeError
from openrknn.serve.plane.job import Job

__all__ = ["JobQueue"]


class JobQueue:
    """Those of a higher level first, in a level first in, first out. `size` jobs may wait beside those that run."""

    def __init__(self, size: int, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        if size < 1:
            raise ValueError(f"a queue of {size} places can hold nothing")
        self.size = size
        self._name, self._clock = name, clock
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._refusal: ServeError | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, job: Job, *, retry_seconds: float = 1.0) -> None:
        """Add a job, or refuse it."""
        with self._changed:
            if self._refusal is not None:
                raise self._refusal
            if len(self._jobs) >= self.size:
                self._drop_late()
            if len(self._jobs) >= self.size:
                message = f"model {self._name!r} has {self.size} requests waiting; try again later"
                raise FullError(message, retry_seconds=retry_seconds)
            self._jobs.insert(self._place(job), job)
            self._changed.notify()
        job.future.add_done_callback(lambda future: self._forget(job) if future.cancelled() else None)

    def _place(self, job: Job) -> int:
        """Behind all of its level."""
        at = len(self._jobs)
        while at and self._jobs[at - 1].level > job.level:
            at -= 1
        return at

    def _drop_late(self) -> None:
        """Those whose time is over need no place."""
        now = self._clock()
        late = [job for job in self._jobs if job.is_late(now)]
        for job in late:
            self._jobs.remove(job)
            self._starts(job)

    def take(
        self, *, most_items: int = 1, delay_seconds: float = 0.0, unless: Callable[[], bool] = lambda: False
    ) -> list[Job] | None:
        """Wait for a job and take it, with others that go into the same batch.

        Empty: the queue is closed and empty. None: `unless` is true, which is looked at before and after `poke`.
        """
        with self._changed:
            while not self._jobs and not self._is_closed:
                if unless():
                    return None
                self._changed.wait()
            if unless():
                return None
            first = self._next()
            if first is None:
                return []
            jobs, items = [first], first.items
            until = time.monotonic() + delay_seconds
            while items < most_items:
                if not self._jobs and not self._is_closed and delay_seconds:
                    self._changed.wait(until - time.monotonic())
                if not self._jobs or items + self._jobs[0].items > most_items or not first.fits(self._jobs[0]):
                    break
                job = self._jobs.popleft()
                if self._starts(job):
                    jobs.append(job)
                    items += job.items
            return jobs

    def _next(self) -> Job | None:
        while True:
            while not self._jobs:
                if self._is_closed:
                    return None
                self._changed.wait()
            job = self._jobs.popleft()
            if self._starts(job):
                return job

    def poke(self) -> None:
        """Let everybody who waits look around."""
        with self._changed:
            self._changed.notify_all()

    def refuse(self, error: ServeError | None) -> None:
        """From now on every new job gets this error, and so does every job that waits; None: take them again."""
        with self._changed:
            self._refusal = error
            waiting = list(self._jobs) if error is not None else []
            if waiting:
                self._jobs.clear()
        for job in waiting:
            if error is not None and job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)

    def close(self) -> None:
        """No new jobs; `take` gives those that wait, then nothing."""
        with self._changed:
            self._is_closed = True
            self._refusal = NotReadyError(f"model {self._name!r} is being unloaded")
            self._changed.notify_all()

    def _forget(self, job: Job) -> None:
        """A job that was cancelled makes room at once."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def _starts(self, job: Job) -> bool:
        """Whether somebody still waits for it."""
        if not job.future.set_running_or_notify_cancel():
            return False
        if job.is_late(self._clock()):
            job.future.set_exception(DeadlineError("the request waited in the queue for longer than its deadline"))
            return False
        return True
