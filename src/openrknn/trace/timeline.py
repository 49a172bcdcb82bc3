"""A trace as lanes of time: the cores, the ioctls of each open file, the life of each buffer."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from openrknn.errors import RknnError
from openrknn.trace.archive import Trace
from openrknn.trace.records import CallRecord, CloseRecord, Event, FinishRecord, OpenRecord, SubmitRecord
from openrknn.trace.replay import Replayer

_CREATES = {"MEM_CREATE": "dma_addr", "CREATE_BO": "dma_address"}
_DESTROYS = ("MEM_DESTROY", "GEM_CLOSE")


@dataclass(frozen=True)
class Span:
    """Something that took time; nanoseconds since the recording began."""

    start: int
    end: int
    kind: str
    """job, failed, submit, memory, question, life, written."""
    text: str


@dataclass
class Lane:
    """A row."""

    name: str
    about: str
    spans: list[Span] = field(default_factory=list)


@dataclass(frozen=True)
class CallTotal:
    """All calls of one ioctl."""

    name: str
    count: int
    failed: int
    nanoseconds: int
    median_ns: int


@dataclass(frozen=True)
class Timeline:
    """What a page needs."""

    start: int
    end: int
    cores: tuple[Lane, ...]
    files: tuple[Lane, ...]
    buffers: tuple[Lane, ...]
    calls: tuple[CallTotal, ...]


@dataclass
class _Life:
    """A buffer from its creation on."""

    start: int
    file: int
    handle: int
    size: int
    end: int | None = None


def timeline_of(trace: Trace) -> Timeline:
    """The lanes of a trace."""
    start = min((event.at for event in trace.events), default=0)
    end = max((event.at for event in trace.events), default=0)
    lanes = tuple(_cores(trace, end)), tuple(_files(trace)), tuple(_buffers(trace, end))
    return Timeline(start, max(end, start + 1), *lanes, tuple(_totals(trace.events)))


def _job_span(number: int, submit: SubmitRecord, finish: FinishRecord | None, end: int) -> Span:
    if finish is None:
        return Span(submit.at, end, "failed", f"job {number}: its end was not recorded")
    start = max(finish.at - finish.nanoseconds, submit.at) if finish.nanoseconds else submit.at
    text = f"job {number}: {finish.tasks} tasks, {finish.macs:,} MACs, {finish.nanoseconds / 1e6:.3f} ms"
    waited = start - submit.at
    if waited > 0:
        text += f"; {waited / 1e6:.3f} ms after its submit"
    return Span(start, finish.at, "failed" if finish.error else "job", f"{text}; {finish.error or 'ok'}")


def _cores(trace: Trace, end: int) -> Iterator[Lane]:
    lanes: dict[int, Lane] = {}
    for number, (submit, finish) in enumerate(trace.jobs(), start=1):
        for core in submit.lists:
            lane = lanes.setdefault(core, Lane(f"core {core}", "jobs"))
            lane.spans.append(_job_span(number, submit, finish, end))
    for core in sorted(lanes):
        yield lanes[core]


def _files(trace: Trace) -> Iterator[Lane]:
    lanes: dict[int, Lane] = {}
    for event in trace.events:
        if isinstance(event, OpenRecord):
            lanes[event.file] = Lane(f"file {event.file}", f"{event.path}, process {event.process}")
        elif isinstance(event, CallRecord):
            lane = lanes.setdefault(event.file, Lane(f"file {event.file}", ""))
            start = max(event.at - event.nanoseconds, 0)
            result = "" if event.result >= 0 else f", refused: errno {-event.result}"
            text = f"{event.name}: {event.nanoseconds / 1e3:.1f} us{result}"
            lane.spans.append(Span(start, event.at, _kind(event), text))
    return iter(lanes.values())


def _kind(call: CallRecord) -> str:
    if call.result < 0:
        return "failed"
    if call.name == "SUBMIT":
        return "submit"
    is_memory = call.name.startswith(("MEM_", "GEM_", "PRIME_")) or call.name.endswith("_BO")
    return "memory" if is_memory else "question"


def _lives(events: tuple[Event, ...]) -> dict[int, list[_Life]]:
    """By device address: the buffers that were there, one after the other."""
    lives: dict[int, list[_Life]] = defaultdict(list)
    for event in events:
        if isinstance(event, CloseRecord):
            ended = [life for there in lives.values() for life in there if life.file == event.file]
        elif isinstance(event, CallRecord) and event.result >= 0 and event.name in _DESTROYS:
            same = (event.file, event.before.get("handle"))
            ended = [life for there in lives.values() for life in there if (life.file, life.handle) == same]
        else:
            ended = []
        for life in ended:
            life.end = event.at if life.end is None else life.end
        if isinstance(event, CallRecord) and event.result >= 0 and event.name in _CREATES:
            there = lives[event.after.get(_CREATES[event.name], 0)]
            if not there or there[-1].end is not None:
                there.append(_Life(event.at, event.file, event.after.get("handle", 0), event.after.get("size", 0)))
    return lives


def _roles(trace: Trace) -> dict[int, str]:
    """By device address: what the last job that used a buffer used it for."""
    roles: dict[int, str] = {}
    replayer = Replayer(trace)
    for submit, _ in trace.jobs():
        try:
            job = replayer.load(submit)
        except (RknnError, ValueError):  # a job that the NPU refused, too
            continue
        for state in submit.buffers:
            if (role := job.roles[state.serial]) != "not used by this job":
                roles[state.address] = role
    return roles


def _buffers(trace: Trace, end: int) -> Iterator[Lane]:
    roles, jobs = _roles(trace), list(enumerate(trace.jobs(), start=1))
    for address, lives in sorted(_lives(trace.events).items(), reverse=True):
        size = max(life.size for life in lives)
        lane = Lane(f"{address:#010x}", f"{size:,} bytes, {roles.get(address, 'never used by a job')}")
        for life in lives:
            text = f"{life.size:,} bytes of file {life.file}, handle {life.handle}"
            lane.spans.append(Span(life.start, end if life.end is None else life.end, "life", text))
        for number, (submit, finish) in jobs:
            if finish is not None and _blob(submit, address) != _blob(finish, address):
                span = _job_span(number, submit, finish, end)
                lane.spans.append(Span(span.start, span.end, "written", f"job {number} wrote here"))
        yield lane


def _blob(record: SubmitRecord | FinishRecord, address: int) -> str:
    return next((state.blob for state in record.buffers if state.address == address), "")


def _totals(events: tuple[Event, ...]) -> Iterator[CallTotal]:
    by_name: dict[str, list[CallRecord]] = defaultdict(list)
    for event in events:
        if isinstance(event, CallRecord):
            by_name[event.name].append(event)
    for name, calls in sorted(by_name.items(), key=lambda item: -sum(call.nanoseconds for call in item[1])):
        times = [call.nanoseconds for call in calls]
        failed = sum(call.result < 0 for call in calls)
        yield CallTotal(name, len(calls), failed, sum(times), int(statistics.median(times)))
