"""The process that computes: it maps the buffers, decodes tasks, runs them on the software NPU, and reports.

It is a process of its own so that a job cannot hold up who answers ioctls, and so that a job that hangs, crashes or
eats all memory can be ended without harm to anybody else. It hears of buffers, tasks and cores; ioctls, files and
programs do not exist here.

Messages are tuples (`engine_link` is the other side):

    ("map", space, serial, address, size)       a descriptor comes with it
    ("unmap", space, serial)                    ("drop", space)             ("reset",)
    ("run", job, space, kind, {core: (first task number, descriptors as bytes)})
    -> ("ready",)
    -> ("done", job, {core: interrupt status}, tasks done, macs, nanoseconds, error text, kind of error, notes,
        address of a fault, whether it is a write)
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
from typing import Any

import numpy as np

from openrknn.chips import Chip, chip_named
from openrknn.fakekernel.execution import ExecutionSpace, Lists, run_lists
from openrknn.fakekernel.packets import STRICT, receive_message, send_message
from openrknn.fakekernel.states import CoreStates
from openrknn.npu import Buffer

__all__ = ["Engine", "main"]


class Engine:
    """Obeys messages; a thread for each core runs the jobs."""

    def __init__(self, chip: Chip, link: socket.socket, *, strict: bool = False) -> None:
        self._chip = chip
        self._strict = strict
        self._link = link
        self._spaces: dict[int, ExecutionSpace] = {}
        self._states = CoreStates()
        self._queues = [queue.SimpleQueue[tuple[int, ExecutionSpace, str, Lists]]() for _ in range(chip.cores)]
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
            self._states.reset()

    def _space(self, number: int) -> ExecutionSpace:
        if number not in self._spaces:
            self._spaces[number] = ExecutionSpace(self._chip, self._states, strict=self._strict)
        return self._spaces[number]

    @staticmethod
    def _map(space: ExecutionSpace, serial: int, address: int, size: int, descriptor: int) -> None:
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
    def _unmap(space: ExecutionSpace, serial: int) -> None:
        space.remove(serial)

    def _work(self, jobs: queue.SimpleQueue[tuple[int, ExecutionSpace, str, Lists]]) -> None:
        while True:
            self._send(("done", *_report(*jobs.get())))

    def _send(self, message: tuple[object, ...]) -> None:
        with self._send_lock, contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send_message(self._link, message)


def _report(job: int, space: ExecutionSpace, kind: str, lists: Lists) -> tuple[object, ...]:
    """Everything after "done" in the report."""
    return job, *run_lists(space, kind, lists)


def _end(failure: threading.ExceptHookArgs) -> None:
    """An unexpected error: report it, and exit. The other side fails the job and starts a new engine."""
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
