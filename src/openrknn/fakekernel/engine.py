"""The process that computes: it maps the buffers, decodes tasks, runs them on the software NPU, and reports.

It is a process of its own so that a job cannot hold up who answers ioctls, and so that a job that hangs, crashes or
eats all memory can be ended without harm to anybody else. It hears of buffers, tasks and cores; ioctls, files and
programs do not exist here.

Messages are tuples (`engine_link` is the other side):

    ("map", space, serial, address, size)       a descriptor comes with it
    ("unmap", space, serial)                    ("drop", space)             ("reset",)
    ("run", job, space, kind, {core: (first task number, descriptors as bytes)})
    -> ("ready",)
    -> ("done", job, {core: interrupt status}, tasks done, macs, nanoseconds, error text, kind of error, notes)
"""

from __future__ import annotations

import contextlib
import mmap
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from openrknn.chips import Chip, chip_named
from openrknn.errors import AccessError, ExecutionError, RknnError
from openrknn.fakekernel.packets import STRICT, receive_message, send_message
from openrknn.fakekernel.programs import Entry, Programs
from openrknn.fakekernel.shared_memory import SharedMemory
from openrknn.fakekernel.tasks import read_chain
from openrknn.npu import Buffer

__all__ = ["Engine", "main"]

_MOST_BASES = 8
Lists: TypeAlias = Mapping[int, tuple[int, bytes]]


class _Space:
    """One address space with its programs."""

    def __init__(self, chip: Chip, *, strict: bool) -> None:
        self.chip = chip
        self.strict = strict
        self.memory = SharedMemory()
        self.programs = Programs(chip, self.memory, strict=strict)
        self.buffers: dict[int, Buffer] = {}
        self._based: dict[int, _Space] = {}

    def at(self, base: int) -> _Space:
        """This memory for tasks whose addresses count from `base` (PC.TASK_DMA_BASE_ADDR)."""
        if not base:
            return self
        if base not in self._based:
            if len(self._based) >= _MOST_BASES:
                del self._based[next(iter(self._based))]
            space = self._based[base] = _Space(self.chip, strict=self.strict)
            for serial, buffer in self.buffers.items():
                space.add(serial, replace(buffer, address=buffer.address - base))
        return self._based[base]

    def add(self, serial: int, buffer: Buffer) -> None:
        self.buffers[serial] = self.memory.add(buffer)
        for base, space in self._based.items():
            space.add(serial, replace(buffer, address=buffer.address - base))

    def remove(self, serial: int) -> None:
        buffer = self.buffers.pop(serial, None)
        if buffer is None:  # it could not be mapped
            return
        self.memory.remove(buffer)
        self.programs.forget(buffer)
        for space in self._based.values():
            space.remove(serial)

    def reset(self) -> None:
        for space in (self, *self._based.values()):
            space.programs.reset()


class Engine:
    """Obeys messages; a thread for each core runs the jobs."""

    def __init__(self, chip: Chip, link: socket.socket, *, strict: bool = False) -> None:
        self._chip = chip
        self._strict = strict
        self._link = link
        self._spaces: dict[int, _Space] = {}
        self._queues = [queue.SimpleQueue[tuple[int, _Space, str, Lists]]() for _ in range(chip.cores)]
        self._send_lock = threading.Lock()

    def serve(self) -> None:
        """Until the other side hangs up."""
        for work in self._queues:
            threading.Thread(target=self._work, args=(work,), daemon=True).start()
        self._send(("ready",))
        while (received := receive_message(self._link)) is not None:
            self._obey(*received)

    def _obey(self, message: tuple[Any, ...], descriptor: int | None) -> None:
        name, *rest = message
        if name == "run":
            job, number, kind, lists, base = rest
            self._queues[min(lists)].put((job, self._space(number).at(base), kind, lists))
        elif name == "map" and descriptor is not None:
            number, serial, address, size = rest
            self._map(self._space(number), serial, address, size, descriptor)
        elif name == "unmap" and rest[0] in self._spaces:  # memory that a job held may outlive its space
            self._unmap(self._spaces[rest[0]], rest[1])
        elif name == "drop":
            self._spaces.pop(rest[0], None)
        elif name == "reset":
            for space in self._spaces.values():
                space.reset()

    def _space(self, number: int) -> _Space:
        if number not in self._spaces:
            self._spaces[number] = _Space(self._chip, strict=self._strict)
        return self._spaces[number]

    @staticmethod
    def _map(space: _Space, serial: int, address: int, size: int, descriptor: int) -> None:
        """Memory that cannot be mapped is not there: a job that uses it faults, and the others go on."""
        try:
            mapped = mmap.mmap(descriptor, size)
        except (OSError, ValueError) as error:
            sys.stderr.write(f"openrknn: a buffer of {size} bytes cannot be mapped: {error}\n")
            return
        finally:
            os.close(descriptor)
        space.add(serial, Buffer(address, np.frombuffer(mapped, np.uint8), f"buffer {serial}"))

    @staticmethod
    def _unmap(space: _Space, serial: int) -> None:
        space.remove(serial)

    def _work(self, jobs: queue.SimpleQueue[tuple[int, _Space, str, Lists]]) -> None:
        while True:
            self._send(("done", *_run(*jobs.get())))

    def _send(self, message: tuple[object, ...]) -> None:
        with self._send_lock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send_message(self._link, message)


def _run(job: int, space: _Space, kind: str, lists: Lists) -> tuple[object, ...]:
    """Everything after "done" in the report."""
    started = time.perf_counter_ns()
    status: dict[int, int] = {}
    done = macs = 0
    text = problem = ""
    try:
        entry = _prepare(space, kind, lists)
        entry.plan.run()
        status = {core: chain.status for core, chain in entry.chains.items()}
        done, macs = sum(len(chain.tasks) for chain in entry.chains.values()), entry.plan.macs
        text = next((chain.stuck for chain in entry.chains.values() if chain.stuck), "")
        problem = "stuck" if text else ""
    except AccessError as error:
        text, problem, done = str(error), "fault", _done_before(error, lists)
    except ExecutionError as error:
        text, problem, done = str(error), "commands", _done_before(error, lists)
    except (RknnError, MemoryError, ValueError, IndexError, OverflowError) as error:
        text, problem = f"{type(error).__name__}: {error}", "commands"
    return job, status, done, macs, time.perf_counter_ns() - started, text, problem, space.programs.new_notes()


def _prepare(space: _Space, kind: str, lists: Lists) -> Entry:
    """The program of these tasks, decoded now or before."""
    key = (kind, tuple(lists.items()))
    known = space.programs.find(key, tuple(lists))
    if known is not None:
        return known
    return space.programs.decode(
        key, {core: read_chain(space.memory, space.chip, kind, first, raw) for core, (first, raw) in lists.items()}
    )


def _done_before(error: ExecutionError, lists: Lists) -> int:
    first = min(number for number, _ in lists.values())
    return max((error.task or 0) - first, 0)


def _end(failure: threading.ExceptHookArgs) -> None:
    """An error that nobody foresaw: say it, and end. The other side fails the job and starts a new engine."""
    threading.__excepthook__(failure)
    sys.stderr.flush()
    os._exit(1)


def main() -> None:
    """`engine_link` starts it with the chip's name and the number of a descriptor."""
    threading.excepthook = _end
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's; who started us decides when it ends
    link = socket.socket(fileno=int(sys.argv[2]))
    with contextlib.suppress(ConnectionResetError):
        Engine(chip_named(sys.argv[1]), link, strict=STRICT in sys.argv[3:]).serve()
