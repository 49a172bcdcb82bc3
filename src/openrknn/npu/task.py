"""One task: where its commands are, and decoded: which blocks work, with which configuration.

A decoded task is a `Step`, which can run as often as one likes; a `Program` is a list of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import NamedTuple

from openrknn.errors import ExecutionError, RknnError
from openrknn.npu.blocks import cna, core, ppu
from openrknn.npu.blocks.dpu import pipeline
from openrknn.npu.memory import Memory
from openrknn.records import dataclass
from openrknn.task import cna as task_cna
from openrknn.task import core as task_core
from openrknn.task import dpu as task_dpu
from openrknn.task import ppu as task_ppu
from openrknn.task import rdma
from openrknn.task.formats import element_bytes, surfaces

CONTRADICTIONS = (ArithmeticError, IndexError, KeyError, TypeError, ValueError)
"""What Python and NumPy say of sizes and formats that do not fit together, where no block has looked before."""


class TaskRef(NamedTuple):
    """A task in memory: where its commands are, and whose they are."""

    number: int
    address: int
    amount: int
    """Body commands; four tail commands follow."""
    operator: int = 0


@dataclass(eq=False)
class Step(ABC):
    """What a task does. `native` is set where a faster way with the same result exists."""

    task: int
    operator: int
    memory: Memory = field(repr=False)
    native: Callable[[], None] | None = field(default=None, repr=False)

    def run(self) -> None:
        """Execute the task."""
        (self.native or self.perform)()

    def perform(self) -> None:
        """`execute`, with errors that say which task it was.

        Registers that contradict each other in a way that no block checks end in an error of NumPy's or of Python's.
        """
        try:
            self.execute()
        except ExecutionError as error:
            error.task = self.task if error.task is None else error.task
            error.operator = str(self.operator) if error.operator is None else error.operator
            raise
        except RknnError:
            raise
        except CONTRADICTIONS as error:
            text = f"registers of this {self.kind} contradict each other ({type(error).__name__}: {error})"
            raise ExecutionError(text, task=self.task, operator=str(self.operator)) from error

    @abstractmethod
    def execute(self) -> None:
        """Execute the task with NumPy: this is the specification."""

    @property
    def macs(self) -> int:
        """Multiply-accumulate operations."""
        return 0

    @property
    @abstractmethod
    def kind(self) -> str:
        """What it is, in one word."""

    @abstractmethod
    def writes(self) -> Iterator[tuple[int, int]]:
        """(address, size) of memory that the task may write: a superset."""


def _dpu_extent(config: task_dpu.Config, atoms: int) -> tuple[int, int]:
    walk = config.write
    if walk.packed_bytes is not None:
        return walk.address, max(atoms * walk.atom_bytes, walk.packed_limit_bytes or 0)
    group = max(walk.per_pixel * walk.width * walk.height, 1)
    groups = -(-atoms // group)
    steps = (
        (groups - 1) * walk.group_step_bytes,
        (walk.height - 1) * walk.line_bytes,
        (walk.width - 1) * walk.atom_bytes,
        (walk.per_pixel - 1) * walk.atom_step_bytes,
    )
    return walk.address, sum(max(step, 0) for step in steps) + walk.atom_bytes


def _pooling_extent(config: task_ppu.Config) -> tuple[int, int]:
    count = surfaces(config.channels, element_bytes(config.precision), config.atom_bytes)
    reach = (count - 1) * config.target_surface_bytes + (config.out_height - 1) * config.target_line_bytes
    return config.target_address, reach + config.out_width * config.atom_bytes


@dataclass(eq=False)
class Convolution(Step):
    """CNA, CORE, DPU and, where operands come from memory, DPU_RDMA; on RK3566/68 the DPU may hand over to the PPU."""

    source: task_cna.Config = field(kw_only=True)
    array: task_core.Config = field(kw_only=True)
    dpu: task_dpu.Config = field(kw_only=True)
    reader: rdma.Config | None = field(kw_only=True)
    pooling: task_ppu.Config | None = field(kw_only=True, default=None)

    kind = "convolution"

    def execute(self) -> None:
        sums = self._sums()
        if self.pooling is None:
            pipeline.run_convolution(sums, self.dpu, self.array, self.reader, self.memory)
            return
        stream = pipeline.stream_convolution(sums, self.dpu, self.array, self.reader, self.memory)
        ppu.run_stream(stream, self.pooling, self.memory)

    def _sums(self) -> core.Sums:
        weights = cna.fetch_weights(self.source, self.memory)
        if self.array.byte_channels:
            return core.convolve_bytes(cna.fetch_patterns(self.source, self.memory), weights, self.array)
        features = cna.fetch_features(self.source, self.memory)
        return core.convolve(features, weights, self.source, window_sums=self.array.window_sums)

    @property
    def macs(self) -> int:
        source = self.source
        kernels = 1 if source.depthwise else source.kernels
        taps = source.kernel_height * source.kernel_width * source.weight_channels
        return source.out_height * source.out_width * kernels * taps

    def writes(self) -> Iterator[tuple[int, int]]:
        if self.pooling is not None:
            yield _pooling_extent(self.pooling)
            return
        count = surfaces(self.dpu.channels, element_bytes(self.dpu.out.precision), self.dpu.write.atom_bytes)
        groups = -(-count // self.dpu.write.per_pixel) * self.dpu.write.per_pixel
        yield _dpu_extent(self.dpu, groups * self.source.out_height * self.source.out_width)


@dataclass(eq=False)
class Flying(Step):
    """DPU and DPU_RDMA: element-wise operations, copies, transposes, upsampling, reductions."""

    dpu: task_dpu.Config = field(kw_only=True)
    reader: rdma.Config = field(kw_only=True)

    kind = "element-wise"

    def execute(self) -> None:
        pipeline.run_flying(self.dpu, self.reader, self.memory)

    def writes(self) -> Iterator[tuple[int, int]]:
        size = element_bytes(self.reader.precision)
        wide = max(element_bytes(self.dpu.out.precision) // size, 1)
        pixels = self.reader.height * self.reader.width * self.reader.repeat_x * self.reader.repeat_y
        yield _dpu_extent(self.dpu, surfaces(self.reader.channels, size, self.reader.atom_bytes) * pixels * wide + 16)


@dataclass(eq=False)
class Chained(Flying):
    """DPU, DPU_RDMA and PPU: the DPU hands its result to the PPU (RK3566/68)."""

    pooling: task_ppu.Config = field(kw_only=True)

    kind = "element-wise"

    def execute(self) -> None:
        ppu.run_stream(pipeline.stream_flying(self.dpu, self.reader, self.memory), self.pooling, self.memory)

    def writes(self) -> Iterator[tuple[int, int]]:
        yield _pooling_extent(self.pooling)


@dataclass(eq=False)
class TableLoad(Step):
    """A dummy task whose stream loads the lookup tables; the tables were stored when it was decoded."""

    kind = "table load"

    def execute(self) -> None:
        """Nothing is left to do: the task copies one atom onto itself."""

    def writes(self) -> Iterator[tuple[int, int]]:
        return iter(())


@dataclass(eq=False)
class Pooling(Step):
    """PPU and PPU_RDMA."""

    config: task_ppu.Config = field(kw_only=True)

    kind = "pooling"

    def execute(self) -> None:
        ppu.run(self.config, self.memory)

    def writes(self) -> Iterator[tuple[int, int]]:
        yield _pooling_extent(self.config)


@dataclass
class Program:
    """Decoded tasks in the order of their execution."""

    steps: list[Step] = field(default_factory=list)

    def run(self) -> None:
        """Execute every step."""
        for step in self.steps:
            step.run()
