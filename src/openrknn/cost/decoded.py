"""The shape of a decoded task, and a decoder that needs no memory behind the commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from openrknn.chip.watch import Lenient
from openrknn.chips import Chip
from openrknn.cost.work import Kind, Shape, Work, work_of
from openrknn.errors import AccessError, ExecutionError, UnsupportedError
from openrknn.isa import TAIL_WORDS, WORD_BYTES
from openrknn.isa.enums import CombineUse, OperandMode
from openrknn.npu import Buffer, Machine, Memory, TaskRef
from openrknn.npu.blocks import ppu, rdma
from openrknn.npu.blocks.dpu import pipeline
from openrknn.npu.blocks.formats import element_bytes, surfaces
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
        return _convolution(step)
    if isinstance(step, Pooling):
        return _pooling(step.config)
    if isinstance(step, Flying):
        return _flying(step)
    return Shape(Kind.TABLE_LOAD)


def _convolution(step: Convolution) -> Shape:
    source = step.source
    size, pixels = element_bytes(source.precision), source.out_height * source.out_width
    picture = source.packed_channels
    stored = source.weight_bytes if source.compression is None else source.compression.size
    each = picture * size if picture else surfaces(source.channels, size, source.atom_bytes) * source.atom_bytes
    kind = Kind.DEPTHWISE if source.depthwise else Kind.PICTURE if picture else Kind.CONVOLUTION
    return Shape(
        kind, pixels, source.kernel_height * source.kernel_width, picture or source.weight_channels, source.kernels,
        element_bytes(source.weight_precision), step.dpu.channels, _uses_table(step.dpu),
        feature_bytes=source.height * source.width * each,
        weight_bytes=0 if source.reuses_weights else stored,
        operand_bytes=_operands(step.reader, step.dpu.channels) if step.reader is not None else 0,
        written_bytes=_written(step.dpu, pixels) if step.pooling is None else _pooled(step.pooling)[1],
    )  # fmt: skip


def _flying(step: Flying) -> Shape:
    reader = step.reader
    pixels = reader.height * reader.width * reader.repeat_x * reader.repeat_y
    written = _pooled(step.pooling)[1] if isinstance(step, Chained) else _written(step.dpu, pixels)
    return Shape(
        Kind.FLYING, pixels, channels=step.dpu.channels, uses_table=_uses_table(step.dpu), feature_bytes=_main(reader),
        operand_bytes=_operands(reader, step.dpu.channels), written_bytes=written,
    )  # fmt: skip


def _pooling(config: ppu.Config) -> Shape:
    read, written = _pooled(config)
    taps = config.kernel_height + config.kernel_width
    return Shape(
        Kind.POOLING, config.out_height * config.out_width, taps, feature_bytes=read, written_bytes=written
    )  # fmt: skip


def _pooled(config: ppu.Config) -> tuple[int, int]:
    count = surfaces(config.channels, element_bytes(config.precision), config.atom_bytes) * config.atom_bytes
    return count * config.height * config.width, count * config.out_height * config.out_width


def _uses_table(config: pipeline.Config) -> bool:
    return config.element_wise is not None and config.element_wise.table is not None


def _main(reader: rdma.Config) -> int:
    if reader.main is None:
        return 0
    size = element_bytes(reader.precision)
    return surfaces(reader.channels, size, reader.atom_bytes) * reader.atom_bytes * reader.height * reader.width


def _operands(reader: rdma.Config, channels: int) -> int:
    """Per channel, and the second operand."""
    read = reader.channels * sum(rdma.operand_bytes(kinds) for kinds in (reader.bias_kinds, reader.norm_kinds))
    if reader.operand is None or reader.combine & CombineUse.MAIN:
        return read
    pixels = 1 if reader.operand.mode is OperandMode.PER_CHANNEL else reader.height * reader.width
    return read + channels * reader.operand.bytes_each * pixels


def _written(config: pipeline.Config, pixels: int) -> int:
    size = element_bytes(config.out.precision)
    if config.write.packed_bytes is not None:
        return pixels * config.write.packed_bytes
    return surfaces(config.real_channels, size, config.write.atom_bytes) * config.write.atom_bytes * pixels
