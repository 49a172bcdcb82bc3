"""Task lists of three cores that are one job from the first task to the last.

Steps are in phases. In one, either core 0 works alone, or every core does its share and needs nothing that another one
made in the same phase. Behind each phase all cores meet, also those that had nothing to do. Where cores meet is as in
the vendor's files (`link.cores`): on the way from one convolution to the next, or else in a task of one pixel. A core
that has nothing to do goes from one meeting to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from openrknn import isa
from openrknn.compiler.link import Linked, LinkedTask, append, cleared, kept_commands, load_tasks
from openrknn.compiler.link.cores import meeting_task
from openrknn.compiler.link.emit import Commands, emit_task
from openrknn.compiler.program import Program, Step, Table, Task
from openrknn.isa.words import amounts_word, link_word
from openrknn.task.kinds import Convolution

__all__ = ["JOINED_CORES", "join_cores", "phases"]

JOINED_CORES = 3


@dataclass(slots=True)
class Phase:
    """Steps between two meetings."""

    shared: bool
    steps: list[int] = field(default_factory=list)


def phases(steps: list[Step], cores: int = JOINED_CORES) -> list[Phase]:
    """In order; steps without tasks are in none."""
    found: list[Phase] = []
    for number, step in enumerate(steps):
        if not step.tasks:
            continue
        shared = cores in step.shares
        goes_on = found and found[-1].shared == shared and (not shared or step.follows)
        if not goes_on:
            found.append(Phase(shared))
        found[-1].steps.append(number)
    return found


def join_cores(program: Program, linked: Linked, tables: Mapping[str, Table]) -> None:
    """Add the lists for three cores, and none for two. Programs of which a step is the CPU's have none."""
    found = phases(program.steps)
    if any(step.is_cpu for step in program.steps) or not any(phase.shared for phase in found):
        return
    meeting = meeting_task(program)
    plans = [[_tasks(program, phase, core) for phase in found] for core in range(JOINED_CORES)]
    directly = [
        all(_ends(plan[number], first=False) and _ends(plan[number + 1], first=True) for plan in plans)
        for number in range(len(found) - 1)
    ]
    linked.lists += [[], []]
    for core, plan in enumerate(plans):
        linked.lists.append(_List(program, linked, tables, meeting, core).of(found, plan, directly))


def _tasks(program: Program, phase: Phase, core: int) -> list[tuple[int, Task]]:
    made = []
    for number in phase.steps:
        step = program.steps[number]
        own = step.shares[JOINED_CORES][core] if phase.shared else step.tasks if core == 0 else []
        made += [(number, task) for task in own]
    return made


def _ends(tasks: list[tuple[int, Task]], *, first: bool) -> bool:
    """Whether the phase of a core begins or ends with a convolution."""
    return bool(tasks) and isinstance(tasks[0 if first else -1][1].work, Convolution)


class _List:
    """The list of one core."""

    def __init__(
        self, program: Program, linked: Linked, tables: Mapping[str, Table], meeting: Task, core: int
    ) -> None:
        self._program, self._linked, self._tables, self._meeting, self._core = program, linked, tables, meeting, core
        self._entries: list[LinkedTask] = []
        self._met: set[int] = set()
        """Numbers of entries that are reached by all cores at once."""
        self._loaded: str | None = None

    def of(
        self, found: list[Phase], plan: list[list[tuple[int, Task]]], directly: list[bool]
    ) -> list[LinkedTask]:
        if not plan[0]:  # a barrier is in the task before it
            self._meet(found[0].steps[0])
            self._met.clear()
        for number, (phase, tasks) in enumerate(zip(found, plan, strict=True)):
            if number and directly[number - 1]:
                self._met.add(len(self._entries))
            self._work(tasks)
            if number < len(found) - 1 and not directly[number]:
                self._meet(phase.steps[-1])
        self._chain()
        return self._entries

    def _meet(self, step: int) -> None:
        self._met.add(len(self._entries))
        commands = emit_task(self._meeting, self._program)
        self._entries.append(append(self._linked, step, self._meeting, commands, self._core, is_meeting=True))

    def _work(self, tasks: list[tuple[int, Task]]) -> None:
        before: list[tuple[Task, Commands]] = []
        step, loads = -1, False
        for number, task in tasks:
            table = self._program.steps[number].table
            if number != step:
                step, before, loads = number, [], False
            if table is not None and table != self._loaded and _looks_up(task):
                for load in load_tasks(self._program, self._tables[table]):
                    commands = emit_task(load, self._program)
                    self._entries.append(append(self._linked, number, load, commands, self._core))
                self._loaded, loads = table, True
            made = cleared(task) if loads else task
            commands = emit_task(made, self._program)
            kept = commands if loads else kept_commands(before, made, commands)
            self._entries.append(append(self._linked, number, made, kept, self._core))
            before.append((made, commands))

    def _chain(self) -> None:
        words, fetch = self._linked.words, self._linked.words_per_fetch
        for number, (task, following) in enumerate(pairwise(self._entries), start=1):
            tail = task.first_word + task.amount
            words[tail] = link_word(following.first_word * isa.WORD_BYTES)
            meet = JOINED_CORES - 1 if number in self._met else 0
            words[tail + 1] = amounts_word(isa.fetch_amount(following.amount, fetch), meet)


def _looks_up(task: Task) -> bool:
    work = task.work
    return hasattr(work, "dpu") and work.dpu.element_wise is not None and work.dpu.element_wise.table is not None
