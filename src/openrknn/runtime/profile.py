"""What each operator costs: seconds here, and an estimate of cycles on a board.

The estimate is a roof with two sides, and no more than that: what the multiply-accumulate array needs (1024 int8
products per cycle on an RK3588 core, `Chip.array_macs` on others), and what the memory needs for the bytes that the
tasks move, at 16 per cycle. Both are counted in the task streams, see `openrknn.runtime.cost`; where a stream cannot be
decoded without memory (RK3576), the operator's tensors count instead, each once. Whole networks come out 3 % (ResNet18)
to 17 % (YOLOX-nano) above the cycles that the vendor's runtime 1.5.2 prints for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

from openrknn.container.model import Model, Operator
from openrknn.container.parts import DataType, Graph, Placement
from openrknn.container.work import macs
from openrknn.device.protocol import Device
from openrknn.device.rocket import RocketDevice
from openrknn.errors import ExecutionError, UnsupportedError
from openrknn.npu.traffic import BYTES_PER_CYCLE
from openrknn.runtime.cost import OperatorCost, cost_of
from openrknn.runtime.program import Program
from openrknn.runtime.steps import operators_to_run

__all__ = ["OperatorProfile", "Profile", "RunTimes", "describe", "measure"]


class RunTimes(NamedTuple):
    """Seconds of one run: arrays into the input buffers, the model itself, output buffers to arrays."""

    feed_seconds: float = 0.0
    run_seconds: float = 0.0
    read_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class OperatorProfile:
    """One row."""

    index: int
    type: str
    name: str
    placement: Placement
    tasks: int
    seconds: float
    """Mean over the runs, on this machine."""
    macs: int | None
    """None where the shapes do not tell."""
    bytes_moved: int
    array_cycles: int | None
    """That the multiply-accumulate arrays need on a board; None for the CPU and where the work is not known."""
    memory_cycles: int | None
    """That the memory needs."""
    estimated_cycles: int | None
    """On a board: the larger one of the two, task by task."""
    software_tasks: int = 0
    """Tasks that the software NPU did, because the kernel's driver cannot finish them (rocket: those of the PPU)."""


@dataclass(frozen=True, slots=True)
class Profile:
    """All rows, in execution order."""

    operators: tuple[OperatorProfile, ...]
    runs: int
    device: str
    cores: int

    @property
    def seconds(self) -> float:
        """One run, without the conversion of inputs and outputs."""
        return sum(row.seconds for row in self.operators)

    @property
    def macs(self) -> int:
        return sum(row.macs or 0 for row in self.operators)

    @property
    def estimated_cycles(self) -> int:
        return sum(row.estimated_cycles or 0 for row in self.operators)


def measure(program: Program, pixels: frozenset[str], *, runs: int, device: Device, cores: int) -> Profile:
    """Run operator by operator on what the inputs hold."""
    seconds: dict[int, float] = {}
    software: dict[int, int] = {}
    for _ in range(runs):
        before = _software_tasks(device)
        for operator, duration in program.run_timed(pixels):
            seconds[operator.index] = seconds.get(operator.index, 0.0) + duration / runs
            software[operator.index], before = _software_tasks(device) - before, _software_tasks(device)
    program.forget_single_steps()
    rows = describe(program.model, program.graph, cores, seconds)
    told = (replace(row, software_tasks=software.get(row.index, 0)) for row in rows)
    return Profile(tuple(told), runs, device.name, cores)


def _software_tasks(device: Device) -> int:
    return device.software_tasks if isinstance(device, RocketDevice) else 0


def describe(model: Model, graph: Graph, cores: int, seconds: Mapping[int, float]) -> list[OperatorProfile]:
    """A row for each operator; `seconds` by the operator's number."""
    costs: dict[int, OperatorCost] = {}
    with suppress(ExecutionError, UnsupportedError):
        costs = {entry.index: entry for entry in cost_of(model, cores, graph).operators}
    macs_per_cycle = model.chip.array_macs * cores
    return [
        _row(operator, seconds.get(operator.index, 0.0), costs.get(operator.index), macs_per_cycle)
        for operator in operators_to_run(model.operators_of(graph))
    ]


def _row(operator: Operator, seconds: float, cost: OperatorCost | None, macs_per_cycle: int) -> OperatorProfile:
    work = macs(operator)
    moved = cost.moved_bytes if cost is not None else _bytes_moved(operator)
    array: int | None = None
    memory: int | None = None
    estimated: int | None = None
    if cost is not None:
        array, memory, estimated = cost.array_cycles, cost.memory_cycles, cost.cycles
    elif operator.placement is Placement.NPU and work is not None:
        array, memory = _array_cycles(operator, work, macs_per_cycle), -(-moved // BYTES_PER_CYCLE)
        estimated = max(array, memory)
    return OperatorProfile(
        index=operator.index, type=operator.type, name=operator.name, placement=operator.placement,
        tasks=cost.tasks if cost is not None else len(operator.tasks), seconds=seconds, macs=work, bytes_moved=moved,
        array_cycles=array, memory_cycles=memory, estimated_cycles=estimated,
    )  # fmt: skip


def _bytes_moved(operator: Operator) -> int:
    tensors: Iterable[tuple[str, int]] = (
        (tensor.name, len(tensor.data) if tensor.data else tensor.size_bytes)
        for tensor in (*operator.inputs, *operator.outputs)
    )
    return sum(dict(tensors).values())


def _array_cycles(operator: Operator, work: int, macs_per_cycle: int) -> int:
    wide = bool(operator.inputs) and operator.inputs[0].dtype is not DataType.INT8
    return -(-work // (macs_per_cycle // 2 if wide else macs_per_cycle))
