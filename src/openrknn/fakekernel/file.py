"""An open file of an emulated device, its jobs, and what a driver must be able to do with it."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from openrknn.uapi.tables import Table

if TYPE_CHECKING:
    from openrknn.fakekernel.fences import Fence
    from openrknn.fakekernel.gem import Handles, Space
    from openrknn.fakekernel.outcome import Outcome
    from openrknn.fakekernel.wire import Call

__all__ = ["Driver", "Job", "Node", "OpenFile"]

_numbers = itertools.count(1)
_job_numbers = itertools.count(1)


@dataclass(frozen=True, eq=False)
class Node:
    """A file that has to be opened by the server: a device, or a text made at the moment of reading."""

    number: int
    path: str
    mode: int
    """As stat shows it."""
    major: int = 0
    minor: int = 0
    driver: Driver | None = None
    """None: a text."""
    is_render: bool = False


class Driver(Protocol):
    """Answers the ioctls of one kind of file. Refusing is `OSError` with the kernel's errno."""

    table: Table

    def open(self, file: OpenFile) -> None:
        """Set up what the driver keeps for the file."""

    def ioctl(self, file: OpenFile, call: Call) -> int:
        """Do it, change `call`, and return what ioctl(2) returns."""

    def mmap(self, file: OpenFile, offset: int, length: int) -> tuple[int, int]:
        """Which descriptor to map instead, and at which offset (with `NOT_INHERITED` if children shall not have it)."""

    def close(self, file: OpenFile) -> None:
        """Give everything back."""


@dataclass(eq=False)
class OpenFile:
    """What one open(2) made. Copies of the descriptor, also in other processes, are the same open file."""

    key: int
    """Inode number of the program's end of the socket."""
    end: socket.socket
    """Our end. It hangs up when the file is no longer open anywhere."""
    node: Node
    driver: Driver
    process: int
    number: int = field(default_factory=lambda: next(_numbers))
    handles: Handles | None = None
    space: Space | None = None
    """rocket: the file's own addresses."""
    fence: Fence | None = None
    jobs: list[Job] = field(default_factory=list)
    """Not finished yet."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_closed: bool = False


@dataclass(eq=False)
class Job:
    """Tasks for one or more cores."""

    file: OpenFile
    space: Space
    kind: str
    """Whose descriptors `lists` holds: rknpu or rocket."""
    lists: Mapping[int, tuple[int, bytes]]
    """For each core: the number of its first task, and the task descriptors as bytes."""
    tasks: int
    timeout: float
    """Seconds, as the program said."""
    base: int = 0
    """What the NPU adds to every address."""
    number: int = field(default_factory=lambda: next(_job_numbers))
    outcome: Outcome | None = None
    done: threading.Event = field(default_factory=threading.Event)
    on_start: list[Callable[[Job], None]] = field(default_factory=list)
    """Called each time before the engine gets it, with the scheduler's lock held."""
    on_done: list[Callable[[Job, Outcome], None]] = field(default_factory=list)
    hangs: bool = False
    """Whether its failure is reported only after the timeout: rocket waits for an interrupt alone."""
    failure: Outcome | None = None
    """Of a job that hangs: why."""
    deadline: float = 0.0
    is_waiting: bool = False
    """In the queues of its cores: neither started nor, which takes a moment after the last task, being finished."""
    alone: bool = False
    """It ran when the engine ended, together with others: now it shows whose fault it was."""

    @property
    def cores(self) -> tuple[int, ...]:
        return tuple(self.lists)
