"""What happens on the emulated device, for recording.

A hook is a callable that gets one `Event` after the other, never two at once, mostly in the thread that serves the
program: the program waits until it returns, so the memory of buffers does not change meanwhile (unless another thread
of the program writes). Keep hooks quick, copy what must last, and do not call the device from them.

    def hook(event: Event) -> None:
        match event:
            case Called():    print(event.file.number, event.name, event.before, "->", event.after, event.result)
            case Submitted(): save(event.job, [(b.address, b.read(0, b.size)) for b in event.buffers])
            case Finished():  print(event.job.number, event.outcome.error)

    Device("rk3588", hook=hook)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from openrknn.fakekernel.file import Job, OpenFile
    from openrknn.fakekernel.gem import Buffer
    from openrknn.fakekernel.outcome import Outcome

__all__ = ["Called", "Closed", "Event", "Finished", "Hook", "Mapped", "Opened", "Submitted"]


@dataclass(frozen=True, slots=True)
class Opened:
    """A program opened a node."""

    file: OpenFile


@dataclass(frozen=True, slots=True)
class Called:
    """An ioctl was answered (after `Submitted` and `Finished` of the job that it may have started)."""

    file: OpenFile
    name: str
    """Of the ioctl; "unknown" if the driver has none of this number."""
    request: int
    before: Mapping[str, int]
    after: Mapping[str, int]
    result: int
    """0, or a negative errno."""
    nanoseconds: int


@dataclass(frozen=True, slots=True)
class Mapped:
    """A program mapped a buffer of the file."""

    file: OpenFile
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job is about to start; nothing of it has run yet, and the jobs before it on its cores are done."""

    job: Job
    buffers: tuple[Buffer, ...]
    """All buffers of the job's address space, with `address`, `size` and `read(offset, size)`."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A job has ended, well or not. Comes from the thread that hears from the engine."""

    job: Job
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Closed:
    """The last descriptor of an open file is gone."""

    file: OpenFile


Event: TypeAlias = Opened | Called | Mapped | Submitted | Finished | Closed
Hook: TypeAlias = Callable[[Event], None]
