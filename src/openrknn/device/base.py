"""What all devices have in common: who owns which buffer, the lock, the life of jobs, and the end.

A driver derives from `BaseDevice` and fills in hooks; the public methods are the base's alone (a subclass that defines
one of them is refused), so that no driver can forget a rule:

    _allocate, _release, _prepare, _shut_down    are called with the lock held: one at a time, never after `close`
    Work.run                                     runs without the lock, so that jobs of several threads overlap; every
                                                 buffer that it is given stays until it returns

A buffer that is freed while a job uses it is released when the job is done, and `close` waits for jobs of other
threads. A fork waits until no thread is inside a hook; the child begins without running jobs. Memory of a kernel driver
is the parent's: in a child such a device refuses work, and closing it releases the child's descriptor only.
"""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, Generic, TypeVar, cast

from openrknn.chips import Chip
from openrknn.closing import Closing
from openrknn.device.protocol import DeviceBuffer, Job
from openrknn.errors import DeviceError
from openrknn.records import dataclass

__all__ = ["PAGE", "BaseDevice", "Prepared", "Work"]

PAGE = 4096
_B = TypeVar("_B", bound=DeviceBuffer)
_FINAL = ("allocate", "free", "owns", "prepare", "close", "__enter__", "__exit__")


@dataclass(frozen=True, slots=True)
class Work(Generic[_B]):
    """A job as a driver made it ready."""

    run: Callable[[Sequence[_B]], None]
    """Runs it and waits. It gets the buffers of the job, which stay for as long as it runs."""
    scratch: tuple[_B, ...] = ()
    """Memory that the driver allocated for this job; it goes when the job is closed."""
    operations: int = 0
    """Of one run, where they were counted: see `Budget`."""


class Prepared(Generic[_B]):
    """A job that is ready to run; see `PreparedJob`."""

    def __init__(self, device: BaseDevice[_B], work: Work[_B], buffers: tuple[_B, ...] | None) -> None:
        self.work, self.buffers = work, buffers
        self.operations = work.operations
        self.is_closed = False
        self.found_at = -1
        """After how many buffers that the device gave back all of this job were still there."""
        self._device = device

    def run(self) -> None:
        """Run it and wait until it is done."""
        running = self._device.begin(self)
        try:
            self.work.run(running.buffers)
        finally:
            self._device.end(running)

    def close(self) -> None:
        """Give back what was allocated for it. Closing twice is allowed."""
        self._device.discard(self)


class _Running(Generic[_B]):
    """A run of a job: its buffers stay."""

    __slots__ = ("buffers", "held", "thread")

    def __init__(self, thread: int, buffers: tuple[_B, ...], held: tuple[_B, ...]) -> None:
        self.thread, self.buffers, self.held = thread, buffers, held


class BaseDevice(Closing, ABC, Generic[_B]):
    """Owns the buffers and the lock of a device; a driver fills in the hooks."""

    SURVIVES_FORK: ClassVar[bool] = False
    """Whether a forked process can go on with its copy."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if taken := [name for name in _FINAL if name in vars(cls)]:
            raise TypeError(f"{cls.__name__} defines {taken[0]}; drivers fill in hooks, BaseDevice holds the lock")

    def __init__(self, chip: Chip) -> None:
        self._chip = chip
        self._lock = threading.Condition(threading.RLock())
        self._owned: dict[_B, None] = {}
        self._runs: list[_Running[_B]] = []
        """Of all threads, now."""
        self._leaving: set[_B] = set()
        self._given_back = 0
        """Buffers so far."""
        self._closed = False
        self._process = os.getpid()
        with _devices_lock:
            _devices.add(self)

    # -- what a driver fills in ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def name(self) -> str:
        """As users write it."""

    @abstractmethod
    def _allocate(self, size_bytes: int, name: str) -> _B:
        """Zeroed memory of `size_bytes`, which are whole pages."""

    @abstractmethod
    def _release(self, buffer: _B) -> None:
        """Give memory of `_allocate` back."""

    @abstractmethod
    def _prepare(self, job: Job) -> Work[_B]:
        """Make a job ready. What it allocates goes into `Work.scratch`."""

    @abstractmethod
    def _shut_down(self) -> None:
        """All memory is back: close what is left."""

    # -- what everybody uses -------------------------------------------------------------------------------------

    @property
    def chip(self) -> Chip:
        return self._chip

    @property
    def cores(self) -> int:
        return self._chip.cores

    def allocate(self, size_bytes: int, name: str) -> _B:
        """Memory in whole pages, zeroed."""
        if size_bytes < 1:
            raise ValueError(f"buffer {name!r} cannot have {size_bytes} bytes")
        return self._own(lambda: self._allocate(-(-size_bytes // PAGE) * PAGE, name))

    def free(self, buffer: DeviceBuffer) -> None:
        """Give memory back: now, or when the last job that uses it is done."""
        with self._lock:
            if buffer in self._owned:
                self._give_back(buffer)

    def owns(self, buffer: DeviceBuffer) -> bool:
        """Whether this memory is of this device, and was not freed."""
        with self._lock:
            return buffer in self._owned

    def prepare(self, job: Job) -> Prepared[_B]:
        """Make a job ready."""
        with self._lock:
            self._check_open()
            prepared = Prepared(self, self._prepare(job), self._buffers_of(job))
            self._owned.update(dict.fromkeys(prepared.work.scratch))
            return prepared

    def close(self) -> None:
        """Give everything back, after the jobs of other threads. Closing twice is allowed."""
        with self._lock, ExitStack() as rest:
            if self._closed:
                return
            self._closed = True
            self._lock.wait_for(lambda: not any(run.thread != threading.get_ident() for run in self._runs))
            rest.callback(self._shut_down)
            for buffer in self._owned if self._is_ours() else ():
                rest.callback(self._release, buffer)
            self._owned.clear()
            self._leaving.clear()

    def __repr__(self) -> str:
        return f"<{self.name}{' closed' if self._closed else ''}>"

    # -- jobs ----------------------------------------------------------------------------------------------------

    def begin(self, prepared: Prepared[_B]) -> _Running[_B]:
        """A job starts; its buffers stay until `end`."""
        with self._lock:
            self._check_open()
            if prepared.is_closed:
                raise DeviceError(f"this job of {self.name} was closed; prepare it again")
            buffers = tuple(self._owned) if prepared.buffers is None else prepared.buffers
            held = (*buffers, *prepared.work.scratch)
            if prepared.found_at != self._given_back:
                if missing := [buffer.name for buffer in held if buffer not in self._owned]:
                    raise DeviceError(
                        f"{missing[0]!r}, which a job of {self.name} uses, was freed; prepare the job again"
                    )
                prepared.found_at = self._given_back
            running = _Running(threading.get_ident(), buffers, held)
            self._runs.append(running)
            return running

    def end(self, running: _Running[_B]) -> None:
        """It is done."""
        with self._lock:
            if running in self._runs:  # not in a child that was forked in the middle of the job
                self._runs.remove(running)
            if self._leaving:
                self._release_idle(running.held)
            if self._closed:
                self._lock.notify_all()

    def discard(self, prepared: Prepared[_B]) -> None:
        """A job that will not run any more."""
        with self._lock:
            prepared.is_closed = True
            for buffer in prepared.work.scratch:
                if buffer in self._owned:
                    self._give_back(buffer)

    # -- for drivers ---------------------------------------------------------------------------------------------

    def _own(self, make: Callable[[], _B]) -> _B:
        """Make a buffer under the lock; from then on it is the device's."""
        with self._lock:
            self._check_open()
            buffer = make()
            self._owned[buffer] = None
            return buffer

    def _check_open(self) -> None:
        if self._closed:
            raise DeviceError(f"{self.name} is closed; open another one")
        if not self._is_ours():
            raise DeviceError(
                f"{self.name} was opened by process {self._process}, and this process ({os.getpid()}) was forked from "
                "it; open the device again here"
            )

    # -- details -------------------------------------------------------------------------------------------------

    def _is_ours(self) -> bool:
        return self.SURVIVES_FORK or self._process == os.getpid()

    def _buffers_of(self, job: Job) -> tuple[_B, ...] | None:
        if job.buffers is None:
            return None
        everything = dict.fromkeys((*job.buffers, *job.constants))
        if foreign := [buffer.name for buffer in everything if buffer not in self._owned]:
            raise ValueError(f"{foreign[0]!r} is not memory of {self.name}")
        return cast("tuple[_B, ...]", tuple(everything))

    def _give_back(self, buffer: _B) -> None:
        del self._owned[buffer]
        self._given_back += 1
        self._leaving.add(buffer)
        self._release_idle((buffer,))

    def _release_idle(self, buffers: Sequence[_B]) -> None:
        """Those that were freed, and that no job uses any more."""
        with ExitStack() as rest:
            for buffer in buffers:
                if buffer in self._leaving and not any(buffer in run.held for run in self._runs):
                    self._leaving.discard(buffer)
                    if self._is_ours():
                        rest.callback(self._release, buffer)

    def _before_fork(self) -> None:
        self._lock.acquire()

    def _after_fork(self) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        """Threads that ran jobs do not exist here."""
        self._lock.release()
        self._lock = threading.Condition(threading.RLock())
        self._runs.clear()
        self._owned.update(dict.fromkeys(self._leaving))  # nobody will be done with them here: they go with the device
        self._leaving.clear()


_devices: weakref.WeakSet[BaseDevice[Any]] = weakref.WeakSet()
_devices_lock = threading.Lock()
_forking: list[BaseDevice[Any]] = []


def _before_fork() -> None:
    _devices_lock.acquire()
    _forking[:] = sorted(_devices, key=id)  # always in the same order
    for device in _forking:
        device._before_fork()


def _after_fork_in_parent() -> None:
    for device in _forking:
        device._after_fork()
    _forking.clear()
    _devices_lock.release()


def _after_fork_in_child() -> None:
    for device in _forking:
        device._after_fork_in_child()
    _forking.clear()
    _devices_lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
