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

__all__ = ["Recorder"]


class Recorder:
    """`Device(chip, hook=Recorder(writer))`"""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._running: dict[int, tuple[Buffer, ...]] = {}

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.Opened():
                self._writer.add(OpenRecord(event.file.number, event.file.node.path, event.file.process))
            case events.Called():
                self._writer.add(
                    CallRecord(
                        event.file.number,
                        event.name,
                        dict(event.before),
                        dict(event.after),
                        event.result,
                        event.nanoseconds,
                    )
                )
            case events.Mapped():
                self._writer.add(MapRecord(event.file.number, event.offset, event.length))
            case events.Submitted():
                self._submitted(event)
            case events.Finished():
                self._finished(event)
            case events.Closed():
                self._writer.add(CloseRecord(event.file.number))

    def _submitted(self, event: events.Submitted) -> None:
        job = event.job
        self._running[job.number] = event.buffers
        lists = {core: (first, raw.hex()) for core, (first, raw) in job.lists.items()}
        self._writer.add(
            SubmitRecord(job.number, job.file.number, job.kind, lists, tuple(self._states(event.buffers)))
        )

    def _finished(self, event: events.Finished) -> None:
        outcome = event.outcome
        buffers = self._running.pop(event.job.number, ())
        self._writer.add(
            FinishRecord(
                event.job.number,
                outcome.error,
                outcome.problem,
                outcome.tasks,
                outcome.macs,
                outcome.nanoseconds,
                tuple(self._states(buffers)),
            )
        )

    def _states(self, buffers: Iterable[Buffer]) -> Iterable[BufferState]:
        for buffer in buffers:
            try:
                data = buffer.read(0, buffer.size)
            except OSError:  # the program gave it back meanwhile
                continue
            yield BufferState(buffer.serial, buffer.address, buffer.size, self._writer.blob(data))
