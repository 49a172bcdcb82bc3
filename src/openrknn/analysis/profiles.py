"""The rows of the profile: what the runtime measured and estimated, joined with what the file says."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openrknn.analysis.board_time import as_facts
from openrknn.container.model import Model, Operator
from openrknn.container.parts import Graph, Kind
from openrknn.runtime.profile import OperatorProfile, Profile

_KIBIBYTE = 1024
_LISTS = 3
"""Core counts for which the file has a division of work, and cores in each."""


@dataclass(frozen=True, slots=True)
class Row:
    """One operator, in the columns of the vendor's table."""

    id: int
    op_type: str
    data_type: str
    target: str
    """NPU, CPU ...; SOFTWARE: the software NPU, because the kernel's driver cannot finish its tasks."""
    input_shape: tuple[tuple[int, ...], ...]
    """Activations first, then constants."""
    activations: int
    """How many of the inputs are activations."""
    output_shape: tuple[tuple[int, ...], ...]
    ddr_cycles: int | None
    npu_cycles: int | None
    total_cycles: int | None
    board_us: float | None
    """Estimated; None where no board figure exists."""
    bound: str | None
    """What bounds it on a board: array, table, DPU, pooling, memory or start."""
    here_us: float
    """Measured."""
    mac_usage_percent: float | None
    workload_percent: tuple[float, ...]
    """Of each core, as the compiler divided the work."""
    rw_kb: float
    macs: int | None
    full_name: str


@dataclass(frozen=True, slots=True)
class TypeTotal:
    """All operators of one type together."""

    op_type: str
    calls: int
    board_us: float
    here_us: float


def rows_of(model: Model, graph: Graph, profile: Profile) -> list[Row]:
    """In execution order."""
    operators = {operator.index: operator for operator in model.operators_of(graph)}
    return [_row(operators[entry.index], entry, profile.cores) for entry in profile.operators]


def _row(operator: Operator, entry: OperatorProfile, cores: int) -> Row:
    total = entry.estimated_cycles
    # Scratch memory of the compiler is listed among the inputs; it is not data.
    inputs = [tensor for tensor in operator.inputs if not tensor.name.endswith("_exSecondary")]
    activations = [tensor for tensor in inputs if tensor.kind.is_activation]
    constants = [tensor for tensor in inputs if not tensor.kind.is_activation and tensor.kind is not Kind.LUT]
    first = next((tensor for tensor in (*operator.outputs, *operator.inputs)), None)
    usage = 100 * entry.array_cycles / total if total and entry.array_cycles is not None and entry.macs else None
    return Row(
        id=operator.index,
        op_type=operator.type,
        data_type=first.dtype.label.upper() if first else "",
        target="SOFTWARE" if entry.software_tasks else str(operator.placement).upper(),
        input_shape=tuple(tensor.shape for tensor in (*activations, *constants)),
        activations=len(activations),
        output_shape=tuple(tensor.shape for tensor in operator.outputs),
        ddr_cycles=entry.memory_cycles,
        npu_cycles=entry.array_cycles,
        total_cycles=total,
        board_us=None if entry.time_ms is None else entry.time_ms * 1e3,
        bound=None if entry.bound is None else str(entry.bound),
        here_us=entry.seconds * 1e6,
        mac_usage_percent=usage,
        workload_percent=_workload(operator, cores),
        rw_kb=entry.bytes_moved / _KIBIBYTE,
        macs=entry.macs,
        full_name=operator.name or operator.type,
    )


def _workload(operator: Operator, cores: int) -> tuple[float, ...]:
    """The file has three numbers for one core, three for two and three for three."""
    loads = operator.node.workloads[_LISTS * (cores - 1) : _LISTS * cores]
    if not any(loads):
        return ()
    return tuple(100 * load / sum(loads) for load in loads)


def by_type(rows: Sequence[Row]) -> list[TypeTotal]:
    """Sums over the types of operators, the most expensive on a board first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.op_type, []).append(row)
    sums = [
        TypeTotal(name, len(members), sum(row.board_us or 0 for row in members), sum(row.here_us for row in members))
        for name, members in found.items()
    ]
    return sorted(sums, key=lambda total: (total.board_us, total.here_us), reverse=True)


def as_json(rows: Sequence[Row], profile: Profile) -> dict[str, Any]:
    """The whole table for programs."""
    cost = profile.cost
    return {
        "device": profile.device,
        "cores": profile.cores,
        "runs": profile.runs,
        "board_hertz": None if cost is None else cost.board.hertz,
        "operators": [dataclasses.asdict(row) for row in rows],
        "types": [dataclasses.asdict(total) for total in by_type(rows)],
        "total": {
            "cycles": profile.estimated_cycles,
            "board_us": sum(row.board_us or 0 for row in rows),
            "here_us": sum(row.here_us for row in rows),
            "rw_kb": sum(row.rw_kb for row in rows),
            "macs": profile.macs,
            **({} if cost is None else as_facts(cost)),
        },
    }
