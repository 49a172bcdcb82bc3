"""The task lists for two and three cores, behind the one for one core.

As in the vendor's files: a step that is not shared has its tasks of the one-core list, on core 0 only, and runs as a
job of that core. Shared steps are chained past it. Between convolutions cores meet on the way to the next one; every
other step ends with a task in which all its cores meet: one pixel of scratch memory through the PPU.

Each core has lookup tables of its own. Where the one-core list loads a table, every core loads it, if any step that
needs it is shared: that step runs without ping-pong anyway, as a job of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from openrknn.compiler.link import Linked, LinkedTask, append, chain, cleared, load_tasks
from openrknn.compiler.link.emit import Commands, emit_task
from openrknn.compiler.program import Place, Program, Step, Table, Task, Tensor
from openrknn.compiler.recipes.pooling import pooling_task
from openrknn.container.parts import DataType, Kind
from openrknn.task.kinds import Convolution

__all__ = ["link_cores", "meeting_task"]

_NAMES = ("tempMC11_output", "tempMC11_input")
_CHANNELS = 32
_SCRATCH_BYTES = 1024


def link_cores(program: Program, linked: Linked, tables: Mapping[str, Table]) -> None:
    """Add the lists, if any step is shared."""
    counts = sorted({cores for step in program.steps for cores in step.shares})
    if not counts:
        return
    for cores in counts:
        _share_loads(program, linked, cores)
    meeting = meeting_task(program)
    alone: dict[int, list[LinkedTask]] = {}
    for entry in linked.lists[0]:
        alone.setdefault(entry.step, []).append(entry)
    for cores in (2, 3):
        for core in range(cores):
            linked.lists.append(_list(program, linked, tables, alone, cores, core, meeting))


def _share_loads(program: Program, linked: Linked, cores: int) -> None:
    """A step that loads a table for shared ones has lists for all cores, even if core 0 does the rest of it alone."""
    loading: int | None = None
    for number, step in enumerate(program.steps):
        if number in linked.table_tasks:
            loading = number
        if loading is not None and step.table is not None and cores in step.shares:
            first = program.steps[loading]
            first.shares.setdefault(cores, [list(first.tasks), *([] for _ in range(1, cores))])


def _list(
    program: Program, linked: Linked, tables: Mapping[str, Table], alone: dict[int, list[LinkedTask]], cores: int,
    core: int, meeting: Task,
) -> list[LinkedTask]:  # fmt: skip
    made: list[LinkedTask] = []
    own: list[LinkedTask] = []
    for number, step in enumerate(program.steps):
        if cores not in step.shares:
            made += alone.get(number, []) if core == 0 else []
            continue
        tasks = list(step.shares[cores][core])
        loads = number in linked.table_tasks
        if loads and step.table is not None:
            tasks = [*load_tasks(program, tables[step.table]), *map(cleared, tasks)]
        if not _is_followed(program, linked, number, cores):
            tasks.append(meeting)
        before: list[Commands] = []
        for task in tasks:
            commands = emit_task(task, program)
            # As for one core: two register groups take turns.
            is_plain = task is not meeting and task.picture is None and not loads and len(before) > 1
            kept = commands.without(before[-2]) if is_plain else commands
            entry = append(linked, number, task, kept, core, is_meeting=task is meeting)
            before.append(commands)
            made.append(entry)
            own.append(entry)
    chain(linked, own, cores - 1)
    return made


def _is_followed(program: Program, linked: Linked, number: int, cores: int) -> bool:
    """Whether the next step with work is a shared convolution in the same job, and its first task the place to meet."""
    if number in linked.table_tasks or not _convolves(program.steps[number]):
        return False
    for following, step in enumerate(program.steps[number + 1 :], start=number + 1):
        if step.is_cpu:
            return False
        if step.tasks:
            return cores in step.shares and _convolves(step) and following not in linked.table_tasks
    return False


def _convolves(step: Step) -> bool:
    return all(isinstance(task.work, Convolution) for task in step.tasks)


def meeting_task(program: Program) -> Task:
    """One pixel of scratch memory through the PPU."""
    form = program.target.int8
    for name in _NAMES:
        program.tensors[name] = Tensor(
            name, Kind.WEIGHT, DataType.INT8, (1, _CHANNELS, 1, 1), "feature", cube=(_CHANNELS, 1, 1), pitch=1,
            native_shape=(1, form.surfaces(_CHANNELS), 1, 1, form.atom), data=bytes(_SCRATCH_BYTES),
            size_bytes=_SCRATCH_BYTES, atom_bytes=form.atom_bytes,
        )  # fmt: skip
    target, source = (Place(name) for name in _NAMES)
    return Task(pooling_task(
        form, average=False, channels=_CHANNELS, rows=1, columns=1, out_rows=1, out_columns=1, kernel=(1, 1),
        strides=(1, 1), pads=(0, 0, 0, 0), source=source, line_pixels=1, source_pitch=1, target=target, target_pitch=1,
        target_notch=0, zero_point=0,
    ))  # fmt: skip
