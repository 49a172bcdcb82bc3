"""The task lists for two and three cores, behind the one for one core.

As in the vendor's files: a step that is not shared has its tasks of the one-core list, on core 0 only, and runs as a
job of that core. Shared steps are chained past it. Where the next step is not shared, a step ends with a task in which
all its cores meet: one pixel of scratch memory through the PPU.
"""

from __future__ import annotations

from openrknn.compiler.emit import Commands, emit_task
from openrknn.compiler.formats import INT8
from openrknn.compiler.link import Linked, LinkedTask, append, chain
from openrknn.compiler.lower.recipes.pooling import PoolingTask, pooling_registers
from openrknn.compiler.program import POOLING, Place, Program, Task, Tensor
from openrknn.container.parts import DataType, Kind

__all__ = ["link_cores"]

_NAMES = ("tempMC11_output", "tempMC11_input")
_CHANNELS = 32
_SCRATCH_BYTES = 1024


def link_cores(program: Program, linked: Linked) -> None:
    """Add the lists, if any step is shared."""
    counts = sorted({cores for step in program.steps for cores in step.shares})
    if not counts:
        return
    meeting = _meeting(program)
    alone: dict[int, list[LinkedTask]] = {}
    for entry in linked.lists[0]:
        alone.setdefault(entry.step, []).append(entry)
    for cores in (2, 3):
        for core in range(cores):
            linked.lists.append(_list(program, linked, alone, cores, core, meeting))


def _list(
    program: Program, linked: Linked, alone: dict[int, list[LinkedTask]], cores: int, core: int, meeting: Task
) -> list[LinkedTask]:
    made: list[LinkedTask] = []
    own: list[LinkedTask] = []
    for number, step in enumerate(program.steps):
        if cores not in step.shares:
            made += alone.get(number, []) if core == 0 else []
            continue
        tasks = list(step.shares[cores][core])
        if not _is_followed(program, number, cores):
            tasks.append(meeting)
        before: list[Commands] = []
        for task in tasks:
            commands = emit_task(task, program)
            # As for one core: two register groups take turns.
            is_plain = task is not meeting and task.picture is None and len(before) > 1
            entry = append(linked, number, task, commands.without(before[-2]) if is_plain else commands, core)
            before.append(commands)
            made.append(entry)
            own.append(entry)
    chain(linked, own, cores - 1)
    return made


def _is_followed(program: Program, number: int, cores: int) -> bool:
    """Whether the next step with work is shared too, so that its first task is the place to meet."""
    for step in program.steps[number + 1 :]:
        if step.is_cpu:
            return False
        if step.tasks:
            return cores in step.shares
    return False


def _meeting(program: Program) -> Task:
    for name in _NAMES:
        program.tensors[name] = Tensor(
            name, Kind.WEIGHT, DataType.INT8, (1, _CHANNELS, 1, 1), "feature", cube=(_CHANNELS, 1, 1), pitch=1,
            native_shape=(1, 2, 1, 1, 16), data=bytes(_SCRATCH_BYTES), size_bytes=_SCRATCH_BYTES,
        )  # fmt: skip
    target, source = (Place(name) for name in _NAMES)
    task = PoolingTask(
        format=INT8, average=False, channels=_CHANNELS, rows=1, columns=1, out_rows=1, out_columns=1, kernel=(1, 1),
        strides=(1, 1), pads=(0, 0, 0, 0), source=source, line_pixels=1, source_pitch=1, target=target, target_pitch=1,
        target_notch=0, zero_point=0,
    )  # fmt: skip
    return Task(POOLING, pooling_registers(task))
