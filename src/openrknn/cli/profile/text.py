"""What `openrknn profile` draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from openrknn.analysis.board_time import clock_text, driver_text, estimate_of, range_text, source_text, where_text
from openrknn.analysis.profiles import Row, by_type
from openrknn.cli.common.output import Output, printable
from openrknn.cli.common.tables import bar, indented, table, title
from openrknn.container.model import Model
from openrknn.quantities import count_of, count_text, duration, size_text
from openrknn.runtime.profile import Profile

__all__ = ["show"]

_HIDDEN = {
    150: {"InputShape", "OutputShape", "WorkLoad", "DataType"},
    130: {"RW(KB)", "MacUsage(%)"},
    110: {"Cycles(DDR/NPU/Total)"},
    70: {"Target", "Bound"},
}
"""Columns of the terminal -> columns of the table that fewer have no room for."""
_SHORTEST_NAME = 12
_GAP = 3
"""Between two columns."""
_BAR_CELLS = 12


def show(output: Output, model: Model, rows: Sequence[Row], profile: Profile) -> None:
    """The table, the types, the sums."""
    width = output.console.width
    output.show(_operators(rows, width, "..." if output.console.options.ascii_only else "…"))
    output.show(title("By type"), *indented(_types(rows, output)))
    here = sum(row.here_us for row in rows) / 1e6
    cost = profile.cost
    if cost is not None:
        estimate = estimate_of(cost)
        cores = count_of(profile.cores, "core")
        rate = f", {1e3 / cost.time_ms:.0f} per second" if cost.time_ms else ""
        output.show(
            title(f"{model.chip.title}, {cores} at {clock_text(estimate)}: {range_text(estimate)}{rate}"),
            Text(where_text(estimate)),
            Text(
                f"{count_text(profile.macs)}MAC, {size_text(round(sum(row.rw_kb for row in rows) * 1024))} moved, "
                f"{count_of(cost.tasks, 'task')} in {count_of(cost.submits, 'job')}, "
                f"{count_text(profile.estimated_cycles).strip()} cycles"
            ),
            Text(source_text(estimate), "" if cost.board.is_fitted else "yellow"),
            *([Text(driver_text(estimate, cost.submits))] if cost.board.is_fitted else []),
        )
    output.show(Text(f"{duration(here)} here, on {profile.device}, operator by operator"))


def _operators(rows: Sequence[Row], width: int, dots: str) -> Table:
    """One line per operator: what does not fit is the start of long names, which --json has whole."""
    columns = [
        "ID", "OpType", "DataType", "Target", "InputShape", "OutputShape", "Cycles(DDR/NPU/Total)", "Board(us)",
        "Bound", "Here(us)", "MacUsage(%)", "WorkLoad", "RW(KB)", "FullName",
    ]  # fmt: skip
    hidden = {name for limit, names in _HIDDEN.items() if width < limit for name in names}
    shown = [name for name in columns if name not in hidden]
    right = ("ID", "Cycles(DDR/NPU/Total)", "Board(us)", "Here(us)", "MacUsage(%)", "RW(KB)")
    lines = [_cells(row) for row in rows]
    widest = {name: max(len(name), *(line[name].cell_len for line in lines)) for name in shown[:-1]}
    room = max(width - sum(widest.values()) - _GAP * len(widest), _SHORTEST_NAME)
    result = table(*shown, right=right, wrap=("InputShape", "OutputShape"))
    for line in lines:
        line["FullName"] = Text(_tail(line["FullName"].plain, room, dots))
        result.add_row(*(line[name] for name in shown))
    return result


def _tail(name: str, room: int, dots: str) -> str:
    return name if len(name) <= room else dots + name[len(dots) - room :]


def _cells(row: Row) -> dict[str, Text]:
    texts = {
        "ID": str(row.id),
        "OpType": printable(row.op_type),
        "DataType": row.data_type,
        "Target": row.target,
        "InputShape": _shapes(row.input_shape[: row.activations]),
        "OutputShape": _shapes(row.output_shape),
        "Cycles(DDR/NPU/Total)": _cycles(row),
        "Board(us)": "\\" if row.board_us is None else f"{row.board_us:.0f}",
        "Bound": row.bound or "\\",
        "Here(us)": f"{row.here_us:.0f}",
        "MacUsage(%)": "\\" if row.mac_usage_percent is None else f"{row.mac_usage_percent:.1f}",
        "WorkLoad": "/".join(f"{share:.0f}%" for share in row.workload_percent) or "\\",
        "RW(KB)": f"{row.rw_kb:.1f}",
        "FullName": printable(row.full_name),
    }
    cells = {name: Text(text) for name, text in texts.items()}
    cells["Target"].stylize("green" if row.target == "NPU" else "yellow")
    return cells


def _cycles(row: Row) -> str:
    """The vendor writes a backslash where nothing is known."""
    if row.total_cycles is None:
        return "\\"
    return f"{row.ddr_cycles}/{row.npu_cycles}/{row.total_cycles}"


def _shapes(shapes: Iterable[tuple[int, ...]]) -> str:
    return ",".join(f"({','.join(map(str, shape))})" for shape in shapes) or "\\"


def _types(rows: Sequence[Row], output: Output) -> Table:
    totals = by_type(rows)
    total = sum(entry.board_us for entry in totals) or 1
    columns = ("OpType", "calls", "Board(us)", "", "share", "Here(us)")
    result = table(*columns, right=("calls", "Board(us)", "share", "Here(us)"))
    ascii_only = output.console.options.ascii_only
    for entry in totals:
        share = entry.board_us / total
        result.add_row(
            printable(entry.op_type),
            str(entry.calls),
            f"{entry.board_us:.0f}",
            Text(bar(share, _BAR_CELLS, ascii_only=ascii_only), "green"),
            f"{100 * share:.1f} %",
            f"{entry.here_us:.0f}",
        )
    return result
