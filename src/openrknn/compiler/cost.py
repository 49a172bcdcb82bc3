"""What a model costs on a board, from its task streams: bytes that each block moves, and cycles.

Bytes are counted in the decoded registers, task by task: halo rows that are read twice count twice, weights that a
band finds in the buffer do not count. Cycles per task are the larger one of the multiply-accumulate array's (1024 int8
or 512 fp16 products per cycle, on whole groups of channels) and of the memory's (16 bytes per cycle); commands are
fetched too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from openrknn import isa
from openrknn.container.model import Model
from openrknn.device import Job, SoftwareDevice
from openrknn.isa.enums import CombineUse, OperandMode
from openrknn.npu import ppu, rdma
from openrknn.npu.accelerate import Accelerated
from openrknn.npu.dpu import pipeline
from openrknn.npu.formats import element_bytes, surfaces
from openrknn.npu.step import Convolution, Flying, Pooling, Step, TableLoad
from openrknn.runtime.program import Program
from openrknn.runtime.session import Session
from openrknn.runtime.steps import core_lists, split

__all__ = ["Cost", "OperatorCost", "cost_of"]

_MACS_PER_CYCLE = 1024
_BYTES_PER_CYCLE = 16
_WORD_BYTES = 8
_REGISTER_MASK = 0xFFFF_0000_0000_FFFF
_KINDS = {1: 4, 2: 2, 4: 2}


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """One operator of the NPU."""

    index: int
    type: str
    name: str
    tasks: int
    read_bytes: int
    written_bytes: int
    command_bytes: int
    macs: int
    cycles: int

    @property
    def moved_bytes(self) -> int:
        return self.read_bytes + self.written_bytes + self.command_bytes


@dataclass(frozen=True, slots=True)
class Cost:
    """A whole model. Shared by cores: tasks and bytes of all of them, cycles of the slowest at each operator."""

    operators: tuple[OperatorCost, ...]
    submits: int
    """Jobs: runs of the NPU between which the CPU works, or a table is loaded without ping-pong."""

    @property
    def tasks(self) -> int:
        return sum(entry.tasks for entry in self.operators)

    @property
    def moved_bytes(self) -> int:
        return sum(entry.moved_bytes for entry in self.operators)

    @property
    def cycles(self) -> int:
        return sum(entry.cycles for entry in self.operators)

    @property
    def macs(self) -> int:
        return sum(entry.macs for entry in self.operators)


def cost_of(model: Model, cores: int = 1) -> Cost:
    """Decode the streams of the lists for this number of cores and add up.

    Each core is taken to get its 16 bytes per cycle, whatever the others do: memory that is busy makes it less.
    """
    amounts: dict[int, list[list[int]]] = {}
    words: dict[int, list[int]] = {}
    counts: dict[int, int] = {}
    submits = 0
    with Session(model, "software", cores=cores) as session:
        program, device = session._program, session.device
        assert isinstance(program, Program)
        assert isinstance(device, SoftwareDevice)
        graph = program.graph
        lists = core_lists(graph, model.chip, cores)
        last_table = False
        for segment in split(graph, program.operators, lists, singly=True):
            if not segment.is_npu:
                last_table = True
                continue
            operator = segment.operators[0]
            loads = bool(operator.node.lut_task_counts and operator.node.lut_task_counts[0])
            submits += 1 if loads or last_table or not submits else 0
            last_table = loads
            prepared = device.prepare(Job(program._tasks, segment.lists))
            assert isinstance(prepared, Accelerated)
            for step in prepared.program.steps:
                core = next(core for core, numbers in enumerate(segment.lists) if step.task in numbers)
                entry = amounts.setdefault(operator.index, [[0, 0, 0, 0] for _ in segment.lists])[core]
                reuses = _reuses_weights(graph.task_words(graph.tasks[step.task], tail=False))
                for number, value in enumerate(_task(step, reuses=reuses)):
                    entry[number] += value
            words[operator.index] = [sum(graph.tasks[n].amount + 4 for n in numbers) for numbers in segment.lists]
            counts[operator.index] = sum(len(numbers) for numbers in segment.lists)
    rows = []
    for operator in model.operators:
        if operator.index not in amounts:
            continue
        read, written, macs, _ = (sum(column) for column in zip(*amounts[operator.index], strict=True))
        commands = [count * _WORD_BYTES for count in words[operator.index]]
        cycles = max(
            entry[3] + size // _BYTES_PER_CYCLE for entry, size in zip(amounts[operator.index], commands, strict=True)
        )
        rows.append(
            OperatorCost(
                operator.index, operator.type, operator.name, counts[operator.index], read, written, sum(commands),
                macs, cycles,
            )
        )  # fmt: skip
    return Cost(tuple(rows), submits)


def _reuses_weights(words: memoryview) -> bool:
    register = isa.cna.CbufCon0
    found = [word for word in words if word & _REGISTER_MASK == isa.Command(isa.Target.CNA, register.offset, 0).word]
    return bool(found) and bool(register(found[-1] >> 16 & 0xFFFFFFFF).weight_reuse)


def _task(step: Step, *, reuses: bool) -> tuple[int, int, int, int]:
    """(bytes read, bytes written, MACs, cycles)."""
    if isinstance(step, TableLoad):
        return 0, 0, 0, 0
    if isinstance(step, Convolution):
        read = sum(_convolution_reads(step)) - (step.source.weight_bytes if reuses else 0)
        written = _written(step.dpu, step.source.out_height * step.source.out_width)
        speed = _MACS_PER_CYCLE // element_bytes(step.source.weight_precision)
        arithmetic = -(-step.macs // speed)
    elif isinstance(step, Pooling):
        read, written = _pooling(step.config)
        arithmetic = 0
    elif isinstance(step, Flying):
        read = _main(step.reader) + _operand(step.reader, step.dpu.channels) + _channels(step.reader)
        pixels = step.reader.height * step.reader.width * step.reader.repeat_x * step.reader.repeat_y
        written = _written(step.dpu, pixels)
        arithmetic = 0
    else:
        return 0, 0, 0, 0
    return read, written, step.macs, max(arithmetic, -(-(read + written) // _BYTES_PER_CYCLE))


def _convolution_reads(step: Convolution) -> Iterator[int]:
    source = step.source
    size = element_bytes(source.precision)
    if source.packed_channels:
        yield source.height * source.width * source.packed_channels * size
    else:
        yield surfaces(source.channels, size, source.atom_bytes) * source.atom_bytes * source.height * source.width
    yield source.weight_bytes
    if step.reader is not None:
        yield _channels(step.reader)
        yield _operand(step.reader, step.dpu.channels)


def _main(reader: rdma.Config) -> int:
    if reader.main is None:
        return 0
    size = element_bytes(reader.precision)
    return surfaces(reader.channels, size, reader.atom_bytes) * reader.atom_bytes * reader.height * reader.width


def _operand(reader: rdma.Config, channels: int) -> int:
    if reader.operand is None or reader.combine & CombineUse.MAIN:
        return 0
    pixels = 1 if reader.operand.mode is OperandMode.PER_CHANNEL else reader.height * reader.width
    return channels * reader.operand.bytes_each * pixels


def _channels(reader: rdma.Config) -> int:
    kinds = (int(reader.bias_kinds), int(reader.norm_kinds))
    return sum(size * reader.channels for kind in kinds for bit, size in _KINDS.items() if kind & bit)


def _written(config: pipeline.Config, pixels: int) -> int:
    size = element_bytes(config.out.precision)
    if config.write.packed_bytes is not None:
        return pixels * config.write.packed_bytes
    return surfaces(config.real_channels, size, config.write.atom_bytes) * config.write.atom_bytes * pixels


def _pooling(config: ppu.Config) -> tuple[int, int]:
    count = surfaces(config.channels, element_bytes(config.precision), config.atom_bytes) * config.atom_bytes
    return count * config.height * config.width, count * config.out_height * config.out_width
