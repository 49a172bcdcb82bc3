"""Queues, several cores, time limits and crashes, without an engine: a stand-in that does what the test says."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import pytest

from openrknn.fakekernel.engine_link import EngineLink
from openrknn.fakekernel.file import Driver, Job, Node, OpenFile
from openrknn.fakekernel.gem import Space
from openrknn.fakekernel.jobs import Scheduler
from openrknn.fakekernel.load import LoadMeter
from openrknn.fakekernel.outcome import Outcome
from openrknn.fakekernel.space import AddressSpace

SPACE = Space(1, AddressSpace(0, 1 << 32, highest_first=True))
WELL = Outcome(tasks=1, macs=10, nanoseconds=5)


class Stand:
    """Notes what it is told to run; `finish` reports."""

    is_ready = True

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.running: list[int] = []
        self.restarts = 0
        self.exists = True

    def run(
        self, job: int, space: Space, kind: str, lists: Mapping[int, tuple[int, bytes]], *, base: int = 0
    ) -> bool:
        if self.exists:
            self.running.append(job)
        return self.exists

    def restart(self) -> None:
        self.restarts += 1
        self.running.clear()

    def finish(self, job: Job) -> None:
        self.running.remove(job.number)
        self.scheduler.on_result(job.number, WELL)


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler(3, time_scale=1.0)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def stand(scheduler: Scheduler) -> Stand:
    stand = Stand(scheduler)
    scheduler.link = cast(EngineLink, stand)
    return stand


@pytest.fixture
def file() -> Iterator[OpenFile]:
    with socket.socket() as end:
        yield OpenFile(1, end, Node(0, "/dev/test", 0), cast(Driver, None), 1)


def make(file: OpenFile, *cores: int, timeout: float = 60, tasks: int = 1) -> Job:
    return Job(file, SPACE, "rknpu", dict.fromkeys(cores, (0, b"")), tasks, timeout)


def test_cores_work_side_by_side(scheduler: Scheduler, stand: Stand, file: OpenFile) -> None:
    jobs = [make(file, core) for core in (0, 1, 0, 2)]
    for job in jobs:
        scheduler.submit(job)
    assert stand.running == [jobs[0].number, jobs[1].number, jobs[3].number]
    stand.finish(jobs[0])
    assert jobs[2].number in stand.running
    assert jobs[0].done.is_set()
    assert jobs[0].outcome == WELL


def test_a_job_for_several_cores_waits_for_all_of_them(scheduler: Scheduler, stand: Stand, file: OpenFile) -> None:
    single, wide, behind = make(file, 1), make(file, 0, 1), make(file, 0)
    for job in (single, wide, behind):
        scheduler.submit(job)
    assert stand.running == [single.number]  # `behind` does not overtake, although core 0 is free
    stand.finish(single)
    assert stand.running == [wide.number]
    stand.finish(wide)
    assert stand.running == [behind.number]


def test_the_idlest_core_has_the_fewest_tasks(scheduler: Scheduler, stand: Stand, file: OpenFile) -> None:
    assert scheduler.idlest_core() == 0
    scheduler.submit(make(file, 0, tasks=5))
    scheduler.submit(make(file, 1, tasks=2))
    assert scheduler.idlest_core() == 2
    scheduler.submit(make(file, 2, tasks=3))
    assert scheduler.idlest_core() == 1


def test_what_takes_too_long_is_ended_and_others_start_again(
    scheduler: Scheduler, stand: Stand, file: OpenFile
) -> None:
    slow, other = make(file, 0, timeout=0.1), make(file, 1)
    scheduler.submit(slow)
    scheduler.submit(other)
    assert slow.done.wait(300)
    assert slow.outcome is not None
    assert slow.outcome.problem == "timeout"
    assert stand.restarts == 1
    assert stand.running == [other.number]
    stand.finish(other)
    assert other.outcome == WELL


def test_a_crash_fails_the_only_job(scheduler: Scheduler, stand: Stand, file: OpenFile) -> None:
    job, next_one = make(file, 0), make(file, 0)
    scheduler.submit(job)
    scheduler.submit(next_one)
    stand.running.clear()
    scheduler.on_crash()
    assert job.outcome is not None
    assert job.outcome.problem == "crash"
    assert stand.running == [next_one.number]


def test_after_a_crash_of_several_each_runs_alone(scheduler: Scheduler, stand: Stand, file: OpenFile) -> None:
    """Nobody knows whose fault it was. The one that crashes alone is guilty; the others are unharmed."""
    good, bad, later = make(file, 0), make(file, 1), make(file, 2)
    scheduler.submit(good)
    scheduler.submit(bad)
    stand.running.clear()
    scheduler.on_crash()
    assert stand.running == [good.number]
    scheduler.submit(later)
    assert stand.running == [good.number]  # not beside a suspect
    stand.finish(good)
    assert good.outcome == WELL
    assert stand.running == [bad.number]
    stand.running.clear()
    scheduler.on_crash()
    assert bad.outcome is not None
    assert bad.outcome.problem == "crash"
    assert stand.running == [later.number]


def test_a_closed_file_takes_its_waiting_jobs_along(scheduler: Scheduler, stand: Stand, file: OpenFile) -> None:
    running, waiting = make(file, 0), make(file, 0)
    scheduler.submit(running)
    scheduler.submit(waiting)
    scheduler.cancel(file)
    assert waiting.outcome is not None
    assert waiting.outcome.problem == "cancelled"
    assert not running.done.is_set()
    stand.finish(running)
    assert file.jobs == []


def test_without_an_engine_jobs_fail(scheduler: Scheduler, stand: Stand, file: OpenFile) -> None:
    stand.exists = False
    job = make(file, 0)
    scheduler.submit(job)
    assert job.done.wait(300)
    assert job.outcome is not None
    assert job.outcome.problem == "crash"


def test_totals(scheduler: Scheduler, stand: Stand, file: OpenFile) -> None:
    for _ in range(3):
        job = make(file, 0)
        scheduler.submit(job)
        stand.finish(job)
    totals = scheduler.totals
    assert (totals.jobs, totals.failed, totals.tasks, totals.macs, totals.nanoseconds) == (3, 0, 3, 30, 15)


def test_the_load_is_that_of_the_last_whole_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000_000
    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    meter = LoadMeter()
    now += 250_000_000
    meter.begin()
    now += 500_000_000
    meter.end()
    assert meter.percent() == 0  # the second is not over
    now += 300_000_000
    assert meter.percent() == 50
    meter.begin()
    now += 2_000_000_000
    assert meter.percent() == 100  # a job that still runs counts
    meter.end()
    now += 2_000_000_000
    assert meter.percent() == 0


def test_a_file_closed_between_a_result_and_its_bookkeeping(
    scheduler: Scheduler, stand: Stand, file: OpenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is in no queue any more and still in the file's list: closing must leave it alone."""
    finish = scheduler._finish

    def closed_first(jobs: Iterable[Job], outcome: Outcome) -> None:
        monkeypatch.setattr(scheduler, "_finish", finish)
        scheduler.cancel(file)
        finish(jobs, outcome)

    done, waiting = make(file, 0), make(file, 0)
    scheduler.submit(done)
    scheduler.submit(waiting)
    monkeypatch.setattr(scheduler, "_start_ready", lambda: None)
    monkeypatch.setattr(scheduler, "_finish", closed_first)
    stand.finish(done)
    assert done.outcome == WELL
    assert waiting.outcome is not None
    assert waiting.outcome.problem == "cancelled"
    assert file.jobs == []


def test_the_start_of_an_engine_is_nobodys_time(scheduler: Scheduler, stand: Stand, file: OpenFile) -> None:
    """Programs with short limits would end each new engine before it is there, and with it everybody's jobs."""
    stand.is_ready = False
    job = make(file, 0, timeout=0.01)
    scheduler.submit(job)
    assert not job.done.wait(0.3)
    assert stand.restarts == 0
    stand.is_ready = True
    scheduler.on_ready()
    assert job.done.wait(5)
    assert stand.restarts == 1


def test_who_was_ended_for_anothers_sake_runs_alone(scheduler: Scheduler, stand: Stand, file: OpenFile) -> None:
    """Or jobs that are late would end it again and again."""
    late, innocent = make(file, 0, timeout=0.1), make(file, 1)
    scheduler.submit(innocent)
    scheduler.submit(late)
    assert late.done.wait(5)
    another = make(file, 0, timeout=0.1)
    scheduler.submit(another)
    assert stand.running == [innocent.number]
    stand.finish(innocent)
    assert stand.running == [another.number]
    assert innocent.outcome == WELL
