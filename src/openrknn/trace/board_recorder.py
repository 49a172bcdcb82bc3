"""Records what the kernel of a virtual board has its NPU do: every start of a core, with the memory behind its IOMMU.

Hardware sees no ioctls. A "file" of the trace is an address space, and each start is a job of its own: one task of the
driver rocket, one job of the driver rknpu. `openrknn spy` in the guest records the ioctls.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from openrknn.board.run import Watcher
from openrknn.board.starts import Start
from openrknn.errors import RknnError
from openrknn.fakekernel.outcome import Outcome
from openrknn.fakekernel.space import counted_from
from openrknn.fakekernel.tasks import COUNTER, read_chain
from openrknn.isa.words import TAIL_WORDS, fetched_commands
from openrknn.npu import TaskRef
from openrknn.trace.archive import TraceWriter
from openrknn.trace.records import BufferState, FinishRecord, OpenRecord, SubmitRecord
from openrknn.uapi import rocket

__all__ = ["BoardRecorder"]


class BoardRecorder(Watcher):
    """`Board(..., watcher=BoardRecorder(writer))`"""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._spaces: dict[int, int] = {}
        self._lock = threading.Lock()

    def started(self, start: Start) -> None:
        at = self._writer.now()
        with self._lock:
            is_new = start.directory not in self._spaces
            file = self._spaces.setdefault(start.directory, len(self._spaces) + 1)
        if is_new:
            self._writer.add(OpenRecord(file, f"page directory {start.directory:#x}", 0, at))
        # The driver's descriptors are not known here: what the PC fetches is, as rocket describes it.
        raw = b"".join(
            rocket.TASK.pack({"regcmd": task.address, "regcmd_count": task.amount + TAIL_WORDS})
            for task in _tasks(start)
        )
        lists = {start.core: (0, raw.hex())}
        states = tuple(self._states(start))
        self._writer.add(SubmitRecord(start.number, file, rocket.DRIVER_NAME, lists, states, at, start.base))

    def ended(self, start: Start, outcome: Outcome) -> None:
        at = self._writer.now()
        counts = (outcome.tasks, outcome.macs, outcome.nanoseconds)
        states = tuple(self._states(start))
        self._writer.add(FinishRecord(start.number, outcome.error, outcome.problem, *counts, states, at))

    def _states(self, start: Start) -> Iterator[BufferState]:
        for serial, buffer in sorted(start.space.buffers.items()):
            data = buffer.data.tobytes()
            yield BufferState(serial, buffer.address, len(data), self._writer.blob(data, serial))


def _tasks(start: Start) -> tuple[TaskRef, ...]:
    """All tasks of a start; the first one alone where its commands cannot be read."""
    space = start.space.at(start.base)
    try:
        return read_chain(space.memory, space.chip, COUNTER, 0, start.registers, base=start.base).tasks
    except RknnError:
        return (TaskRef(0, counted_from(start.base, start.address), fetched_commands(start.amounts, space.chip), 0),)
