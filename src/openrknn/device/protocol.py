"""What every device offers. Memory with addresses, and jobs that are prepared once and run many times.

    with open_device("software", chip) as device:
        buffer = device.allocate(4096, "commands")      # buffer.array is the memory itself
        ...                                             # write commands, weights and inputs
        prepared = device.prepare(Job(tasks, lists))
        prepared.run()                                  # returns when the NPU is done
        prepared.close()

Every method may be called from any thread. What the CPU wrote into `DeviceBuffer.array` is what the NPU sees when a job
runs, and the other way round afterwards: a device whose caches are not coherent sees to that inside `PreparedJob.run`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from openrknn.chips import Chip
from openrknn.container.parts import Task
from openrknn.npu.budget import UNLIMITED, Budget
from openrknn.records import dataclass

__all__ = ["Bytes", "Device", "DeviceBuffer", "Job", "PreparedJob"]

Bytes: TypeAlias = npt.NDArray[np.uint8]


@runtime_checkable
class DeviceBuffer(Protocol):
    """Bytes that both sides see."""

    @property
    def name(self) -> str:
        """For error messages and memory maps."""

    @property
    def address(self) -> int:
        """Where the NPU sees it: 32 bits, because the registers hold no more."""

    @property
    def array(self) -> Bytes:
        """The memory itself, not a copy; zeros at first."""


class LateConstants(Protocol):
    """Constants that are copied when somebody reads them: those of a program from the cache are in its file."""

    @property
    def ranges(self) -> Sequence[tuple[int, int]]:
        """Their places in the first buffer of constants, in order: start and end."""

    def complete(self, starts: Collection[int] | None = None) -> None:
        """Copy them, or those of the ranges that start so, if that has not been done; from now on they stay."""

    def fetch(self, start: int, end: int) -> None:
        """Copy those of which bytes from `start` to `end` are asked for; they stay until `trim` is called."""

    def trim(self, most_bytes: int = 0) -> None:
        """Give back the memory of what was fetched and does not stay, down to so many bytes."""


@dataclass(frozen=True, slots=True)
class Job:
    """Tasks that run in order, without the CPU in between."""

    tasks: Sequence[Task]
    """The task records of a graph, with absolute addresses of their commands."""
    lists: tuple[tuple[int, ...], ...]
    """For each core that works: the numbers of its tasks. Cores meet between operators."""
    ping_pong: bool = True
    """Whether a task may be loaded while the one before it works (not around lookup tables)."""
    constants: tuple[DeviceBuffer, ...] = ()
    """Buffers that neither side writes again; what is in them may be packed once."""
    buffers: tuple[DeviceBuffer, ...] | None = None
    """Every other buffer that the tasks read or write. None: any buffer of the device, and then a job makes caches of
    buffers consistent that another thread may be writing; say which where threads share a device."""
    budget: Budget = UNLIMITED
    """What its tasks may ask of a software NPU."""
    constants_digest: bytes = b""
    """Of what `constants` hold: preparing the same tasks over the same constants again may return what was
    made of them before. Empty: nothing is kept of this job."""
    late: LateConstants | None = None
    """Of constants that are not in memory yet; None: all of them are."""


@runtime_checkable
class PreparedJob(Protocol):
    """A job that is ready: decoded, or known to the driver. It can run as often as one likes."""

    def run(self) -> None:
        """Run it and wait until it is done."""

    def close(self) -> None:
        """Give back what was allocated for it. Closing twice is allowed; closing the device does it, too."""


@runtime_checkable
class Device(Protocol):
    """An NPU. A context manager; `close` gives everything back."""

    @property
    def name(self) -> str:
        """As users write it: "software:rk3588"."""

    @property
    def chip(self) -> Chip:
        """What it is, or what it stands for."""

    @property
    def cores(self) -> int:
        """How many cores can work on one job."""

    def allocate(self, size_bytes: int, name: str) -> DeviceBuffer:
        """Memory of at least this size, zeroed."""

    def free(self, buffer: DeviceBuffer) -> None:
        """Give memory back. A job that runs keeps it until it is done; none can start with it any more."""

    def owns(self, buffer: DeviceBuffer) -> bool:
        """Whether this memory is of this device, and was not freed."""

    def prepare(self, job: Job) -> PreparedJob:
        """Make a job ready. Its commands are read now: a change of them needs a new preparation."""

    def close(self) -> None:
        """Give everything back, after the jobs that run. Closing twice is allowed."""

    def __enter__(self) -> Device: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
