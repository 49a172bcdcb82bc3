"""From task lists to decoded programs, kept as long as nothing that they were decoded from has changed.

A program is decoded from commands in memory and from the registers and tables that earlier jobs left in the cores. It
may run again without decoding if the commands are still the same bytes and the cores are in the same state; the
state that decoding left behind is then put back, so that the next job finds what it would find on hardware.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from openrknn.chips import Chip
from openrknn.fakekernel.plans import Plan, signature
from openrknn.fakekernel.shared_memory import SharedMemory
from openrknn.fakekernel.states import Cores, CoreStates, State
from openrknn.fakekernel.tasks import Chain
from openrknn.isa import TAIL_WORDS
from openrknn.npu import Buffer, Machine, TaskRef
from openrknn.npu.memory import Bytes

__all__ = ["Entry", "Programs"]

_MOST_KEYS = 256
_MOST_ENTRIES = 16
"""Of one task list with other commands, or after other jobs: ping-pong alone gives two states of each."""
_NEAR = 64
"""Streams start on multiples of 64 bytes: neighbours have smaller gaps."""


@dataclass(eq=False)
class Entry:
    """What was decoded, and what from."""

    plan: Plan
    signature: bytes | None
    chains: Mapping[int, Chain]
    before: tuple[State, ...]
    after: tuple[State, ...]
    commands: list[tuple[Bytes, bytes]]
    """Views of memory, and what was in them."""

    def is_current(self, states: tuple[State, ...]) -> bool:
        """Whether decoding again would give the same."""
        same = all(now is then for now, then in zip(states, self.before, strict=True))
        return same and all(view.tobytes() == saved for view, saved in self.commands)


class Programs:
    """The programs of one address space."""

    def __init__(
        self, chip: Chip, memory: SharedMemory, *, strict: bool = False, states: CoreStates | None = None
    ) -> None:
        self.memory = memory
        self._machine = Machine(chip, memory, strict=strict)
        self._cores = Cores(self._machine, states or CoreStates())
        self._entries: dict[object, list[Entry]] = {}
        self._lock = threading.Lock()

    def find(self, key: object, cores: tuple[int, ...]) -> Entry | None:
        """The program that was decoded for this key, if it still holds."""
        with self._lock:
            states = tuple(map(self._cores.state, cores))
            for entry in self._entries.get(key, ()):
                if entry.is_current(states):
                    for core, state in zip(cores, entry.after, strict=True):
                        self._cores.set_state(core, state)
                    return entry
            return None

    def decode(self, key: object, chains: Mapping[int, Chain]) -> Entry:
        """Decode the tasks of each core."""
        cores = tuple(chains)
        lists = [chains[core].tasks if core in chains else () for core in range(max(cores) + 1)]
        with self._lock:
            before = tuple(map(self._cores.state, cores))
            for core in cores:
                self._cores.load(core)
            touched: set[Buffer] = set()
            try:
                with self.memory.noting(touched):
                    program = self._machine.prepare(lists)
            except BaseException:
                for core in cores:  # nobody knows how far it came
                    self._cores.reset(core)
                raise
            after = tuple(map(self._cores.store, cores))
            commands = [(view, view.tobytes()) for tasks in lists for view in self._commands(tasks)]
            mark = signature(program)
            plan = self._same_plan(key, mark) or Plan(program, self.memory, touched)
            entry = Entry(plan, mark, chains, before, after, commands)
            self._remember(key, entry)
            return entry

    def new_notes(self) -> tuple[str, ...]:
        """What the tasks hold that boards are recorded to ignore, since the last call."""
        with self._lock:
            found, self._machine.findings = self._machine.findings, []
        return tuple(f"{finding.text} (ignored by {finding.run})" for finding in found)

    def forget(self, buffer: Buffer) -> None:
        """A buffer is gone: programs that used it hold pointers into it."""
        with self._lock:
            for key, entries in list(self._entries.items()):
                kept = [entry for entry in entries if entry.plan.is_noted and buffer not in entry.plan.buffers]
                if kept:
                    self._entries[key] = kept
                else:
                    del self._entries[key]

    def reset(self) -> None:
        """What a reset of the NPU does."""
        with self._lock:
            self._cores.reset()

    def _same_plan(self, key: object, mark: bytes | None) -> Plan | None:
        """Most tasks do not care what ran before: decoded in another state they do the same."""
        same = (entry.plan for entry in self._entries.get(key, ()) if mark is not None and entry.signature == mark)
        return next(same, None)

    def _commands(self, tasks: Sequence[TaskRef]) -> Iterator[Bytes]:
        """The words of the tasks; neighbours in one piece, because comparing a few long ones is faster."""
        start = end = -_NEAR
        for address, size in sorted((task.address, (task.amount + TAIL_WORDS) * 8) for task in tasks):
            if end >= 0 and address < end + _NEAR and self._is_one_buffer(start, address + size):
                end = max(end, address + size)
                continue
            if end >= 0:
                yield self.memory.view(start, end - start, "commands")
            start, end = address, address + size
        if end >= 0:
            yield self.memory.view(start, end - start, "commands")

    def _is_one_buffer(self, start: int, end: int) -> bool:
        return end <= self.memory.at(start, 1, "commands").end

    def _remember(self, key: object, entry: Entry) -> None:
        if len(self._entries) >= _MOST_KEYS:
            del self._entries[next(iter(self._entries))]
        self._entries.setdefault(key, []).append(entry)
        del self._entries[key][:-_MOST_ENTRIES]
