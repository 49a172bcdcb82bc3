"""The shape of a decoded task, and a decoder that needs no memory behind the commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from openrknn.chip.watch import Lenient
from openrknn.chips import Chip
from openrknn.cost.tasks import convolution_shape, elementwise_shape, pooling_shape
from openrknn.cost.work import Kind, Shape, Work, work_of
from openrknn.errors import AccessError, ExecutionError, UnsupportedError
from openrknn.isa import TAIL_WORDS, WORD_BYTES
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.npu.task import Chained, Convolution, Flying, Pooling, Step

__all__ = ["decoded_work", "shape_of", "step_works"]

_COMMANDS_AT = 0x1000


class _Blank(Memory):
    """The commands, and zeros wherever else a decoder looks: RK3576 keeps the tables of a task in memory."""

    def at(self, address: int, size: int, what: str) -> Buffer:
        try:
            return super().at(address, size, what)
        except AccessError:
            return Buffer(address, np.zeros(size, np.uint8), "blank")


def decoded_work(
    commands: bytes | memoryview, chip: Chip, runs: Iterable[Sequence[Sequence[TaskRef]]]
) -> Mapping[int, Work]:
    """Task number -> its work. Addresses of tasks count from the first command; `runs` are lists of cores, in order.

    A run of which a task cannot be decoded is left out.
    """
    words = np.frombuffer(commands, np.uint8).copy()
    machine = Machine(chip, _Blank([Buffer(_COMMANDS_AT, words, "commands")]), watcher=Lenient())
    found: dict[int, Work] = {}
    for run in runs:
        lists = [[task._replace(address=task.address + _COMMANDS_AT) for task in tasks] for tasks in run]
        sizes = {task.number: task.amount for tasks in run for task in tasks}
        try:
            steps = machine.prepare(lists).steps
        except (ExecutionError, UnsupportedError):
            continue
        found |= step_works(steps, sizes, chip)
    return found


def step_works(steps: Iterable[Step], amounts: Mapping[int, int], chip: Chip) -> dict[int, Work]:
    """Task number -> its work, of tasks that are decoded already; `amounts`: commands of each, without the tail."""
    found: dict[int, Work] = {}
    for step in steps:
        shape = shape_of(step)
        if step.task in found:  # a stream that starts the blocks twice is fetched once
            found[step.task] = found[step.task].plus(work_of(shape, chip)._replace(tasks=0))
        else:
            size = (amounts[step.task] + TAIL_WORDS) * WORD_BYTES
            found[step.task] = work_of(shape._replace(command_bytes=size), chip)
    return found


def shape_of(step: Step) -> Shape:
    """Of one decoded task; loading a table costs its commands only."""
    if isinstance(step, Convolution):
        return convolution_shape(step.source, step.dpu, step.reader, step.pooling)
    if isinstance(step, Pooling):
        return pooling_shape(step.config)
    if isinstance(step, Flying):
        return elementwise_shape(step.dpu, step.reader, step.pooling if isinstance(step, Chained) else None)
    return Shape(Kind.TABLE_LOAD)
