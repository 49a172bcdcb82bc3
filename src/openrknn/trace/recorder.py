"""Records what happens on the emulated device: a hook for `openrknn.fakekernel.Device`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from openrknn.fakekernel import events
from openrknn.trace.archive import TraceWriter
from openrknn.trace.records import (
    BufferState,
    CallRecord,
    CloseRecord,
    FinishRecord,
    MapRecord,
    OpenRecord,
    SubmitRecord,
)

if TYPE_CHECKING:
    from openrknn.fakekernel.gem import Buffer


class Recorder:
    """`Device(chip, hook=Recorder(writer))`"""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._running: dict[int, tuple[Buffer, ...]] = {}

    def __call__(self, event: events.Event) -> None:
        add, at = self._writer.add, self._writer.now()  # before contents are stored, which takes a while
        match event:
            case events.Opened():
                add(OpenRecord(event.file.number, event.file.node.path, event.file.process, at))
            case events.Called():
                before, after = dict(event.before), dict(event.after)
                add(CallRecord(event.file.number, event.name, before, after, event.result, event.nanoseconds, at))
            case events.Mapped():
                add(MapRecord(event.file.number, event.offset, event.length, at))
            case events.Submitted():
                self._submitted(event, at)
            case events.Finished():
                self._finished(event, at)
            case events.Closed():
                add(CloseRecord(event.file.number, at))

    def _submitted(self, event: events.Submitted, at: int) -> None:
        job = event.job
        self._running[job.number] = event.buffers
        lists = {core: (first, raw.hex()) for core, (first, raw) in job.lists.items()}
        states = tuple(self._states(event.buffers))
        self._writer.add(SubmitRecord(job.number, job.file.number, job.kind, lists, states, at, job.base))

    def _finished(self, event: events.Finished, at: int) -> None:
        number, outcome = event.job.number, event.outcome
        states = tuple(self._states(self._running.pop(number, ())))
        counts = (outcome.tasks, outcome.macs, outcome.nanoseconds)
        self._writer.add(FinishRecord(number, outcome.error, outcome.problem, *counts, states, at))

    def _states(self, buffers: Iterable[Buffer]) -> Iterable[BufferState]:
        for buffer in buffers:
            try:
                data = buffer.read(0, buffer.size)
            except OSError:  # the program gave it back meanwhile
                continue
            yield BufferState(buffer.serial, buffer.address, buffer.size, self._writer.blob(data, buffer.serial))
