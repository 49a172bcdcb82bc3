"""Tasks in one address space, run on the software NPU: what the engine and a virtual board's device share."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from openrknn.chips import Chip
from openrknn.errors import AccessError, ExecutionError, RknnError
from openrknn.fakekernel.outcome import Outcome
from openrknn.fakekernel.programs import Entry, Programs
from openrknn.fakekernel.shared_memory import SharedMemory
from openrknn.fakekernel.space import counted_from
from openrknn.fakekernel.states import CoreStates
from openrknn.fakekernel.tasks import read_chain
from openrknn.npu import Buffer

__all__ = ["ExecutionSpace", "Lists", "run_lists"]

_MOST_BASES = 8
Lists: TypeAlias = Mapping[int, tuple[int, bytes]]
"""Core -> number of its first task, and what describes its tasks."""


class ExecutionSpace:
    """One address space with its programs. `states`: the cores, which all address spaces of a board share."""

    def __init__(self, chip: Chip, states: CoreStates, *, strict: bool, base: int = 0) -> None:
        self.chip = chip
        self.base = base
        """What addresses count from."""
        self.strict = strict
        self.memory = SharedMemory()
        self.programs = Programs(chip, self.memory, strict=strict, states=states)
        self.buffers: dict[int, Buffer] = {}
        self._states = states
        self._based: dict[int, ExecutionSpace] = {}

    def at(self, base: int) -> ExecutionSpace:
        """This memory for tasks whose addresses count from `base` (PC.TASK_DMA_BASE_ADDR)."""
        if not base:
            return self
        if base not in self._based:
            if len(self._based) >= _MOST_BASES:
                del self._based[next(iter(self._based))]
            space = self._based[base] = ExecutionSpace(self.chip, self._states, strict=self.strict, base=base)
            for serial, buffer in self.buffers.items():
                space.add(serial, _moved(buffer, base))
        return self._based[base]

    def add(self, serial: int, buffer: Buffer) -> None:
        self.buffers[serial] = self.memory.add(buffer)
        for base, space in self._based.items():
            space.add(serial, _moved(buffer, base))

    def remove(self, serial: int) -> None:
        buffer = self.buffers.pop(serial, None)
        if buffer is None:  # it could not be mapped
            return
        self.memory.remove(buffer)
        self.programs.forget(buffer)
        for space in self._based.values():
            space.remove(serial)


def _moved(buffer: Buffer, base: int) -> Buffer:
    return replace(buffer, address=counted_from(base, buffer.address, buffer.data.nbytes))


def run_lists(space: ExecutionSpace, kind: str, lists: Lists, *, executes: bool = True) -> Outcome:
    """Decode what `tasks` describes, unless that was done before, and run it on what is in memory.

    Without `executes` the interrupt comes, and nothing was done: an NPU whose memory does not answer.
    """
    started = time.perf_counter_ns()
    status: dict[int, int] = {}
    done = macs = 0
    text = problem = ""
    address: int | None = None
    is_write = False
    try:
        entry = _prepare(space, kind, lists)
        if executes:
            entry.plan.run()
        status = {core: chain.status for core, chain in entry.chains.items()}
        done, macs = sum(len(chain.tasks) for chain in entry.chains.values()), entry.plan.macs
        text = next((chain.stuck for chain in entry.chains.values() if chain.stuck), "")
        problem = "stuck" if text else ""
    except AccessError as error:
        text, problem, done, address = str(error), "fault", _done_before(error, lists), error.address
        is_write = error.is_write
    except ExecutionError as error:
        text, problem, done = str(error), "commands", _done_before(error, lists)
    except (RknnError, MemoryError, ValueError, IndexError, OverflowError) as error:
        text, problem = f"{type(error).__name__}: {error}", "commands"
    elapsed, notes = time.perf_counter_ns() - started, space.programs.new_notes()
    return Outcome(status, done, macs, elapsed, text, problem, notes, address, is_write)


def _prepare(space: ExecutionSpace, kind: str, lists: Lists) -> Entry:
    """The program of these tasks, decoded now or before."""
    key = (kind, tuple(lists.items()))
    known = space.programs.find(key, tuple(lists))
    if known is not None:
        return known
    chains = {
        core: read_chain(space.memory, space.chip, kind, first, raw, base=space.base)
        for core, (first, raw) in lists.items()
    }
    return space.programs.decode(key, chains)


def _done_before(error: ExecutionError, lists: Lists) -> int:
    first = min(number for number, _ in lists.values())
    return max((error.task or 0) - first, 0)
