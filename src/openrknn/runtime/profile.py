"""What each operator costs: seconds here, and an estimate of cycles on a board.

The estimate is a roof with two sides, and no more than that:

    cycles = max(MACs / (MACs per cycle and core * cores), bytes moved / 16)

The array of one RK3588 core does 1024 int8 or 512 fp16, bf16 or int16 multiply-accumulates per cycle (three cores at 1
GHz make the 6 TOPS of the data sheet), those of other chips `Chip.array_macs` (inferred); 16 bytes per cycle, one
atom, is what memory gives all cores together. Bytes are the constants, inputs and outputs of the operator, each once.
Whole networks come out 3 % (ResNet18) to 35 % (YOLOX-nano) above the cycles that the vendor's runtime 1.5.2 prints for
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from openrknn.container.model import Operator
from openrknn.container.parts import DataType, Placement
from openrknn.container.work import macs
from openrknn.device.protocol import Device
from openrknn.device.rocket import RocketDevice
from openrknn.runtime.program import Program

__all__ = ["OperatorProfile", "Profile", "RunTimes", "describe_operator", "measure"]

_BYTES_PER_CYCLE = 16


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
    software_tasks: int = 0
    """Tasks that the software NPU did, because the kernel's driver cannot finish them (rocket: those of the PPU)."""

    @property
    def estimated_cycles(self) -> int | None:
        """On a board: the larger one of the two."""
        if self.array_cycles is None or self.memory_cycles is None:
            return None
        return max(self.array_cycles, self.memory_cycles)


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
    macs_per_cycle = program.model.chip.array_macs * cores
    rows = (
        describe_operator(operator, seconds.get(operator.index, 0.0), macs_per_cycle) for operator in program.operators
    )
    told = (replace(row, software_tasks=software.get(row.index, 0)) for row in rows)
    return Profile(tuple(told), runs, device.name, cores)


def _software_tasks(device: Device) -> int:
    return device.software_tasks if isinstance(device, RocketDevice) else 0


def describe_operator(operator: Operator, seconds: float, macs_per_cycle: int) -> OperatorProfile:
    """The row of one operator; `macs_per_cycle` are those of all cores together, for int8."""
    work = macs(operator)
    moved = _bytes_moved(operator)
    is_known = operator.placement is Placement.NPU and work is not None
    return OperatorProfile(
        index=operator.index,
        type=operator.type,
        name=operator.name,
        placement=operator.placement,
        tasks=len(operator.tasks),
        seconds=seconds,
        macs=work,
        bytes_moved=moved,
        array_cycles=_array_cycles(operator, work or 0, macs_per_cycle) if is_known else None,
        memory_cycles=-(-moved // _BYTES_PER_CYCLE) if is_known else None,
    )


def _bytes_moved(operator: Operator) -> int:
    tensors: Iterable[tuple[str, int]] = (
        (tensor.name, len(tensor.data) if tensor.data else tensor.size_bytes)
        for tensor in (*operator.inputs, *operator.outputs)
    )
    return sum(dict(tensors).values())


def _array_cycles(operator: Operator, work: int, macs_per_cycle: int) -> int:
    wide = bool(operator.inputs) and operator.inputs[0].dtype is not DataType.INT8
    return -(-work // (macs_per_cycle // 2 if wide else macs_per_cycle))
