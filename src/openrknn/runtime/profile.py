"""What each operator costs: seconds here, and an estimate for a board.

The estimate is that of `openrknn.cost`: the slowest of array, table, DPU and memory, task by task, and the start of
tasks and jobs. Operators of the CPU, and those whose commands cannot be decoded, have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from openrknn.container.model import Model, Operator
from openrknn.container.parts import Graph, Placement
from openrknn.cost import Board, Bound, Cost
from openrknn.cost.macs import macs
from openrknn.device.protocol import Device
from openrknn.device.rocket import RocketDevice
from openrknn.runtime.cost import OperatorCost, cost_of
from openrknn.runtime.program.program import Program
from openrknn.runtime.program.steps import operators_to_run
from openrknn.runtime.times import RunTimes

__all__ = ["OperatorProfile", "Profile", "RunTimes", "describe", "measure"]


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
    """None where the shapes do not say."""
    bytes_moved: int
    array_cycles: int | None
    """That the multiply-accumulate arrays need on a board; None for the CPU and where the work is not known."""
    memory_cycles: int | None
    """That the memory needs."""
    estimated_cycles: int | None
    """On a board: the time at the NPU's highest clock."""
    time_ms: float | None = None
    """On a board, estimated; None for the CPU, unknown work, and chips of which no board figure is known."""
    bound: Bound | None = None
    """What most of the time is spent on."""
    software_tasks: int = 0
    """Tasks that the software NPU did, because the kernel's driver cannot finish them (rocket: those of the PPU)."""


@dataclass(frozen=True, slots=True)
class Profile:
    """All rows, in execution order."""

    operators: tuple[OperatorProfile, ...]
    runs: int
    device: str
    cores: int
    cost: Cost | None = None
    """What the estimate is based on."""

    @property
    def seconds(self) -> float:
        """One run, without the conversion of inputs and outputs."""
        return sum(row.seconds for row in self.operators)

    @property
    def macs(self) -> int:
        """Products and sums of all operators."""
        return sum(row.macs or 0 for row in self.operators)

    @property
    def estimated_cycles(self) -> int:
        """Of the NPU's clock, for all operators, by the cost model."""
        return sum(row.estimated_cycles or 0 for row in self.operators)

    @property
    def time_ms(self) -> float | None:
        """One run on a board, estimated; None where no board figure exists. Operators without a time are not in it."""
        return None if self.cost is None else self.cost.time_ms

    @property
    def low_ms(self) -> float | None:
        """The least that a board would take by estimate; None without one."""
        return None if self.cost is None else self.cost.low_ms

    @property
    def high_ms(self) -> float | None:
        """The most that a board would take by estimate; None without one."""
        return None if self.cost is None else self.cost.high_ms


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
    cost = cost_of(program.model, cores, program.graph)
    rows = describe(program.model, program.graph, cost, seconds)
    counted = (replace(row, software_tasks=software.get(row.index, 0)) for row in rows)
    return Profile(tuple(counted), runs, device.name, cores, cost)


def _software_tasks(device: Device) -> int:
    return device.software_tasks if isinstance(device, RocketDevice) else 0


def describe(model: Model, graph: Graph, cost: Cost, seconds: Mapping[int, float]) -> list[OperatorProfile]:
    """A row for each operator; `seconds` by the operator's number."""
    costs = {entry.index: entry for entry in cost.operators}
    return [
        _row(operator, seconds.get(operator.index, 0.0), costs.get(operator.index), cost.board)
        for operator in operators_to_run(model.operators_of(graph))
    ]


def _row(operator: Operator, seconds: float, cost: OperatorCost | None, board: Board) -> OperatorProfile:
    row = OperatorProfile(
        index=operator.index, type=operator.type, name=operator.name, placement=operator.placement,
        tasks=len(operator.tasks), seconds=seconds, macs=macs(operator), bytes_moved=_bytes_moved(operator),
        array_cycles=None, memory_cycles=None, estimated_cycles=None,
    )  # fmt: skip
    if cost is None:
        return row
    return replace(
        row, tasks=cost.tasks, bytes_moved=cost.moved_bytes, array_cycles=cost.array_cycles,
        memory_cycles=cost.memory_cycles, estimated_cycles=cost.cycles, bound=cost.bound,
        time_ms=cost.spent.seconds * 1e3 if board.is_fitted else None,
    )  # fmt: skip


def _bytes_moved(operator: Operator) -> int:
    """Of an operator whose tasks are not known: its tensors, each once."""
    tensors: Iterable[tuple[str, int]] = (
        (tensor.name, len(tensor.data) if tensor.data else tensor.size_bytes)
        for tensor in (*operator.inputs, *operator.outputs)
    )
    return sum(dict(tensors).values())
