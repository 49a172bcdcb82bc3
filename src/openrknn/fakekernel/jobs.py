"""Jobs, the queues of the cores, and time.

Each core has a queue. A job for several cores stands in the queues of all of them and starts when it is the first in
each (as in the driver, which knows no priorities: the field is not read). What hangs is ended by the engine's
end; jobs of others that ran at that moment start again.

A software NPU is slower than silicon, so time limits that programs give are stretched by `time_scale`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openrknn.fakekernel.load import LoadMeter
from openrknn.fakekernel.log import unharmed
from openrknn.fakekernel.outcome import Outcome

if TYPE_CHECKING:
    from openrknn.fakekernel.engine_link import EngineLink
    from openrknn.fakekernel.file import Job, OpenFile

__all__ = ["Scheduler", "Totals"]

_SHORTEST_TIMEOUT = 0.1
_LONGEST_START = 120.0


@dataclass
class Totals:
    """Since the device was opened."""

    jobs: int = 0
    failed: int = 0
    tasks: int = 0
    macs: int = 0
    nanoseconds: int = 0
    notes: dict[str, None] = field(default_factory=dict)
    """What commands held that boards are recorded to ignore, each once."""


class Scheduler:
    """Hands jobs to the engine."""

    def __init__(self, cores: int, time_scale: float) -> None:
        self.totals = Totals()
        self.meters = [LoadMeter() for _ in range(cores)]
        self.link: EngineLink | None = None
        self._scale = time_scale
        self._queues: list[deque[Job]] = [deque() for _ in range(cores)]
        self._running: dict[int, Job] = {}
        self._condition = threading.Condition(threading.RLock())
        self._stopped = False
        self._watcher: threading.Thread | None = None

    def start(self) -> None:
        """Begin to look at the clock."""
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="deadlines")
        self._watcher.start()

    def submit(self, job: Job) -> None:
        """Queue a job; it may start at once. Jobs of a file that was closed meanwhile are not waited for."""
        with self._condition:
            job.file.jobs.append(job)
            is_late = self._stopped or job.file.is_closed
            if not is_late:
                self._enqueue(job)
        if is_late:
            self._finish([job], Outcome(error="the device was closed", problem="cancelled"))

    def _enqueue(self, job: Job) -> None:
        job.is_waiting = True
        for core in job.cores:
            self._queues[core].append(job)
        self._start_ready()

    def idlest_core(self) -> int:
        """The core with the fewest tasks before it; the first of equals."""
        with self._condition:
            waiting = [sum(job.tasks for job in queue) for queue in self._queues]
            for job in self._running.values():
                for core in job.cores:
                    waiting[core] += job.tasks
            return waiting.index(min(waiting))

    def is_busy(self, core: int) -> bool:
        """Whether a job runs on the core."""
        return any(core in job.cores for job in self._running.values())

    def cancel(self, file: OpenFile) -> None:
        """The file is closed: what has not started will not."""
        with self._condition:
            waiting = [job for job in file.jobs if job.is_waiting]
            for job in waiting:
                self._withdraw(job)
            self._start_ready()
        self._finish(waiting, Outcome(error="the program closed the device", problem="cancelled"))

    def stop(self) -> None:
        """Nothing runs any more."""
        with self._condition:
            self._stopped = True
            left = [*self._running.values(), *{job: None for queue in self._queues for job in queue}]
            self._running.clear()
            for queue in self._queues:
                queue.clear()
            self._condition.notify_all()
        self._finish(left, Outcome(error="the device ended", problem="cancelled"))
        if self._watcher is not None:
            self._watcher.join()

    def on_result(self, number: int, outcome: Outcome) -> None:
        """The engine is done with a job."""
        with self._condition:
            job = self._running.get(number)
            if job is None:
                return
            if job.hangs and outcome.problem:
                job.failure = outcome
                job.deadline = time.monotonic() + job.timeout - outcome.nanoseconds / 1e9
                self._condition.notify_all()
                return
            self._leave_cores(job)
        # Whoever records the memory that a job left must see it before the next one writes.
        self._finish([job], outcome)
        with self._condition:
            self._start_ready()

    def on_ready(self) -> None:
        """The engine has started: the time of the jobs that it was handed meanwhile begins now."""
        with self._condition:
            for job in self._running.values():
                self._set_deadline(job)
            self._condition.notify_all()

    def on_crash(self) -> None:
        """The engine ended by itself; another one has been started."""
        with self._condition:
            running = [job for job in self._running.values() if job.failure is None]
            for job in running:
                self._leave_cores(job)
            guilty = running if len(running) == 1 else [job for job in running if job.alone]
            for job in reversed([job for job in running if job not in guilty]):
                job.alone = True
                self._queue_again(job)
            self._start_ready()
        self._finish(guilty, Outcome(error="the software NPU crashed", problem="crash"))

    def _start_ready(self) -> None:
        for queue in self._queues:
            while queue and self._may_start(queue[0]):
                self._start(queue[0])

    def _may_start(self, job: Job) -> bool:
        if any(other.alone for other in self._running.values()) or (job.alone and self._running):
            return False
        return all(self._queues[core][0] is job and not self.is_busy(core) for core in job.cores)

    def _start(self, job: Job) -> None:
        assert self.link is not None
        self._withdraw(job)
        self._running[job.number] = job
        self._set_deadline(job)
        for core in job.cores:
            self.meters[core].begin()
        self._condition.notify_all()
        for callback in job.on_start:
            with unharmed(f"the start of job {job.number}"):
                callback(job)
        if not self.link.run(job.number, job.space, job.kind, job.lists, base=job.base):
            self._leave_cores(job)
            outcome = Outcome(error="the software NPU does not start; see above", problem="crash")
            threading.Thread(target=self._finish, args=([job], outcome)).start()

    def _set_deadline(self, job: Job) -> None:
        """Starting an engine takes longer than many time limits, so it does not count against any job."""
        assert self.link is not None
        seconds = max(job.timeout, _SHORTEST_TIMEOUT) * self._scale
        job.deadline = time.monotonic() + (seconds if self.link.is_ready else max(seconds, _LONGEST_START))

    def _withdraw(self, job: Job) -> None:
        job.is_waiting = False
        for core in job.cores:
            self._queues[core].remove(job)

    def _queue_again(self, job: Job) -> None:
        job.is_waiting = True
        for core in job.cores:
            self._queues[core].appendleft(job)

    def _leave_cores(self, job: Job) -> None:
        del self._running[job.number]
        for core in job.cores:
            self.meters[core].end()

    def _finish(self, jobs: Iterable[Job], outcome: Outcome) -> None:
        for job in jobs:
            with self._condition:
                self.totals.jobs += 1
                self.totals.failed += bool(outcome.problem)
                self.totals.tasks += outcome.tasks
                self.totals.macs += outcome.macs
                self.totals.nanoseconds += outcome.nanoseconds
                self.totals.notes |= dict.fromkeys(outcome.notes)
                job.file.jobs.remove(job)
            job.outcome = outcome
            for callback in job.on_done:
                with unharmed(f"the end of job {job.number}"):
                    callback(job, outcome)
            job.done.set()

    def _watch(self) -> None:
        """Ends jobs whose time is over."""
        while True:
            with self._condition:
                if self._stopped:
                    return
                now = time.monotonic()
                late = [job for job in self._running.values() if job.deadline <= now]
                if not late:
                    nearest = min((job.deadline for job in self._running.values()), default=now + 3600)
                    self._condition.wait(nearest - now)
                    continue
                for job in late:
                    if job.failure is not None:
                        self._leave_cores(job)
                if any(job.failure is None for job in late):
                    self._end_late([job for job in late if job.failure is None])
            for job in late:
                self._finish([job], job.failure or Outcome(error="the job took too long", problem="timeout"))
            with self._condition:
                self._start_ready()

    def _end_late(self, late: Sequence[Job]) -> None:
        assert self.link is not None
        running = [job for job in self._running.values() if job.failure is None]
        for job in running:
            self._leave_cores(job)
        self.link.restart()
        for job in reversed([job for job in running if job not in late]):
            job.alone = True  # or the next one that is late would end it again, and so on for ever
            self._queue_again(job)
        self._start_ready()
