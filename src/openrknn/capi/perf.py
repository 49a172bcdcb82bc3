"""RKNN_QUERY_PERF_DETAIL: the time of every operator as a text, in the form of runtime 1.5.2.

Columns are left-aligned and one row is one operator of the graph, with those at its ends. Times are measured; cycles
are the estimate of `openrknn.cost`; traffic is that of the operator's tensors, each once, as 1.5.2 counts it.
`openrknn.vendor.context.perf` reads the text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from openrknn.container.model import Model, Operator
from openrknn.container.parts import Graph, Placement, Tensor
from openrknn.runtime.program.program import Program

if TYPE_CHECKING:
    from openrknn.runtime.profile import OperatorProfile

_COLUMNS = (
    ("ID", 5), ("OpType", 17), ("DataType", 9), ("Target", 7), ("InputShape", 45), ("OutputShape", 23),
    ("DDR Cycles", 15), ("NPU Cycles", 15), ("Total Cycles", 15), ("Time(us)", 15), ("MacUsage(%)", 15),
    ("WorkLoad(0/1/2)-ImproveTherical", 39), ("Task Number", 15), ("Lut Number", 15), ("RW(KB)", 15), ("FullName", 16),
)  # fmt: skip
_CORES_COLUMN = "WorkLoad(0/1/2)-ImproveTherical"
"""Of chips with several cores; the vendor's spelling."""
_NOTHING = "\\"
_NATIVE_RANK = 5
_ROOM = "_exSecondary"
_INPUT, _OUTPUT = "InputOperator", "OutputOperator"


def measured(program: Program, pixels: frozenset[str]) -> dict[int, float]:
    """Run operator by operator: seconds by the operator's number."""
    seconds: dict[int, float] = {}
    for operator, duration in program.run_timed(pixels):
        seconds[operator.index] = seconds.get(operator.index, 0.0) + duration
    return seconds


def perf_text(model: Model, graph: Graph, seconds: Mapping[int, float], cores: int = 1) -> str:
    """The table."""
    from openrknn.runtime.cost import cost_of  # here: few ask for it, and the engine's start waits for imports
    from openrknn.runtime.profile import describe

    columns = [column for column in _COLUMNS if column[0] != _CORES_COLUMN or model.chip.cores > 1]
    rows = {row.index: row for row in describe(model, graph, cost_of(model, cores, graph), seconds)}
    lines = ["".join(title.ljust(width) for title, width in columns)]
    operators = model.operators_of(graph)
    for operator in operators:
        cells = _cells(model, operator, rows.get(operator.index), seconds.get(operator.index, 0.0), cores)
        lines.append("".join(_cell(cells[title], width) for title, width in columns))
    total = sum(round(value * 1e6) for value in seconds.values())
    moved = sum(_moved(operator) for operator in operators) / 2**20
    lines += [f"Total Operator Elapsed Time(us): {total}", f"Total Memory RW Amount(MB): {moved:.2f}", ""]
    return "\n".join(lines)


def _cell(text: str, width: int) -> str:
    """What is too long pushes the rest of its row to the right, by one blank."""
    return text.ljust(width) if len(text) < width or width == _COLUMNS[-1][1] else f"{text} "


def _cells(model: Model, operator: Operator, row: OperatorProfile | None, seconds: float, cores: int) -> dict[str, str]:
    tensors = operator.outputs or operator.inputs
    is_npu = operator.placement is Placement.NPU
    node = operator.node
    tables = node.lut_task_counts[0] if node.lut_task_counts else 0
    return {
        "ID": str(operator.index + (model.chip.cores > 1)),  # 1.5.2 counts from 1 on RK3588, from 0 on RK3566
        "OpType": operator.type,
        "DataType": tensors[0].dtype.name if tensors else _NOTHING,
        "Target": _target(operator),
        "InputShape": _shapes(_inputs(operator)),
        "OutputShape": _shapes(operator.outputs),
        "DDR Cycles": str(row.memory_cycles or 0) if row else "0",
        "NPU Cycles": str(row.array_cycles or 0) if row else "0",
        "Total Cycles": str(row.estimated_cycles or 0) if row else "0",
        "Time(us)": str(round(seconds * 1e6)),
        "MacUsage(%)": _usage(model, row, seconds),
        _CORES_COLUMN: _shares(cores if is_npu else 0, model.chip.cores),
        "Task Number": str((len(operator.tasks) if is_npu else sum(node.output_groups)) - tables),
        "Lut Number": str(tables),
        "RW(KB)": f"{_moved(operator) / 1024:.2f}",
        "FullName": operator.name,
    }


def _target(operator: Operator) -> str:
    """1.5.2 counts the end of a graph as the CPU's, also where the NPU converts."""
    is_cpu = operator.placement is Placement.CUSTOM or operator.type == _OUTPUT
    return "CPU" if is_cpu else operator.placement.upper()


def _inputs(operator: Operator) -> tuple[Tensor, ...]:
    """Without the room that the compiler gave it for its own copies, and without the tables of an input."""
    if operator.type == _INPUT:
        return ()
    return tuple(tensor for tensor in operator.inputs if not tensor.name.endswith(_ROOM))


def _shapes(tensors: tuple[Tensor, ...]) -> str:
    return ",".join(f"({','.join(map(str, tensor.shape))})" for tensor in tensors) or _NOTHING


def _usage(model: Model, row: OperatorProfile | None, seconds: float) -> str:
    """The share of the time that the arrays were needed, at the NPU's highest clock."""
    if row is None or not row.array_cycles or not seconds:
        return _NOTHING
    return f"{row.array_cycles / (seconds * model.chip.clocks[-1]) * 100:.2f}"


def _shares(cores: int, of: int) -> str:
    each = [f"{100 / cores:.1f}%" if core < cores else "0.0%" for core in range(of)]
    return f"{'/'.join(each)} - Up:0.0%"


def _moved(operator: Operator) -> int:
    tensors = {tensor.name: tensor for tensor in (*_inputs(operator), *operator.outputs)}
    return sum(_bytes(tensor) for tensor in tensors.values())


def _bytes(tensor: Tensor) -> int:
    """Constants as stored; maps as in memory, without what the compiler allocated behind them."""
    if tensor.data is not None:
        return len(tensor.data)
    elements = math.prod(tensor.native_shape) if len(tensor.native_shape) == _NATIVE_RANK else tensor.elements
    return elements * tensor.dtype.bits // 8
