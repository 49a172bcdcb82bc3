"""What the drivers of one emulated board share: the chip, its memory, its queues, its clock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from openrknn.chips import Chip
from openrknn.fakekernel.boards import TreeNode
from openrknn.fakekernel.events import Event, Finished, Hook, Submitted
from openrknn.fakekernel.file import Job, OpenFile
from openrknn.fakekernel.gem import Buffers, Inodes, Space
from openrknn.fakekernel.jobs import Scheduler
from openrknn.fakekernel.log import LOG
from openrknn.fakekernel.outcome import Outcome
from openrknn.fakekernel.space import SPACE_END, AddressSpace

__all__ = ["System"]


@dataclass(eq=False)
class System:
    """One board."""

    chip: Chip
    board: TreeNode
    scheduler: Scheduler
    hook: Hook | None = None
    hook_error: Exception | None = None
    """Why the hook is not called any more."""
    buffers: Buffers = field(default_factory=Buffers)
    heap_inodes: Inodes = field(default_factory=Inodes)
    """Of memory that the dma-heaps gave out; its release is not reported."""
    frequency: int = 0
    governor: str = "rknpu_ondemand"
    delay_ms: int = 3000
    soft_reset: bool = True
    open_files: Callable[[], list[OpenFile]] = list
    """Those of the devices, for the lists in debugfs."""
    space_bytes: int = SPACE_END
    """Of each address space."""
    _spaces: dict[int, Space] = field(default_factory=dict)
    _last_space: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _telling: threading.RLock = field(default_factory=threading.RLock)

    def new_space(self, *, start: int = 0, highest_first: bool) -> Space:
        """An address space of at most 32 bits."""
        with self._lock:
            self._last_space += 1
            space = Space(self._last_space, AddressSpace(start, self.space_bytes, highest_first=highest_first))
            self._spaces[space.number] = space
            return space

    def drop_space(self, space: Space) -> None:
        """It is no longer used."""
        with self._lock:
            del self._spaces[space.number]
        if self.scheduler.link is not None:
            self.scheduler.link.drop(space)

    def spaces(self) -> Iterable[Space]:
        """All address spaces."""
        with self._lock:
            return list(self._spaces.values())

    def forget_removed(self, at_least: int = 0) -> None:
        """Tell the engine which buffers are gone, once they add up to `at_least` bytes."""
        link = self.scheduler.link
        if link is not None and sum(buffer.size for buffer in list(self.buffers.removed)) >= max(at_least, 1):
            link.forget_removed()

    def emit(self, event: Event) -> None:
        """Pass one event at a time to the recorders. A recorder that fails (a full disk) is removed."""
        if self.hook is None:
            return
        with self._telling:
            try:
                if self.hook is not None:
                    self.hook(event)
            except Exception as error:  # noqa: BLE001  # it is somebody else's code, and programs are waiting
                self.hook, self.hook_error = None, error
                LOG.error("recording ended: %s: %s", type(error).__name__, error)

    def submit(self, job: Job) -> None:
        """Queue a job, and tell of it before it runs and after it ran."""
        if self.hook is not None:
            job.on_start.append(self._tell_start)
            job.on_done.append(lambda done, outcome: self.emit(Finished(done, outcome)))
        job.on_done.append(_complain)
        self.scheduler.submit(job)

    def _tell_start(self, job: Job) -> None:
        """Once, though a job may start again after the engine was ended for another's sake."""
        job.on_start.remove(self._tell_start)
        self.emit(Submitted(job, tuple(job.space.buffers.values())))


def _complain(job: Job, outcome: Outcome) -> None:
    if outcome.problem and outcome.problem != "cancelled":
        LOG.warning("job %d of process %d failed: %s", job.number, job.file.process, outcome.error)
