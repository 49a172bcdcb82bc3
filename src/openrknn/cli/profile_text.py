"""What `openrknn profile` draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from openrknn.cli.output import Output, printable
from openrknn.cli.profile_rows import Row, by_type
from openrknn.cli.run_text import duration
from openrknn.cli.tables import bar, indented, table, title
from openrknn.cli.words import count_of, count_text, size_text
from openrknn.container.model import Model
from openrknn.runtime.profile import Profile

__all__ = ["show"]

_WIDE, _MIDDLE = 150, 110
_SHAPES = {"InputShape", "OutputShape"}
_DETAILS = {"DataType", "WorkLoad", "RW(KB)", "MacUsage(%)"}
_BAR_CELLS = 12
_KNOWN_FAMILY = "rk3588"
"""The array of this one is in its manual."""


def show(output: Output, model: Model, rows: Sequence[Row], profile: Profile) -> None:
    """The table, the types, the sums."""
    width = output.console.width
    output.show(_operators(rows, width))
    output.show(title("By type"), *indented(_types(rows, output)))
    board, here = sum(row.board_us or 0 for row in rows) / 1e6, sum(row.here_us for row in rows) / 1e6
    unknown = sum(row.total_cycles is None for row in rows)
    cores = count_of(profile.cores, "core")
    output.show(
        title(
            f"{model.chip.title}, {cores} at 1 GHz: about {duration(board)} ({1 / board:.0f} per second)"
            if board
            else "no cycles are known"
        ),
        Text(
            f"{count_text(profile.macs)}MAC, {size_text(round(sum(row.rw_kb for row in rows) * 1024))} moved, "
            f"{count_text(profile.estimated_cycles).strip()} cycles estimated"
            + (f", without {count_of(unknown, 'operator')} on the CPU or of unknown work" if unknown else "")
        ),
        Text(f"{duration(here)} here, on {profile.device}, operator by operator"),
    )
    if model.chip.family != _KNOWN_FAMILY:
        macs = model.chip.array_macs
        output.show(Text(f"an array of {macs} MACs per cycle is inferred from how weights are stored", "yellow"))


def _operators(rows: Sequence[Row], width: int) -> Table:
    columns = [
        "ID", "OpType", "DataType", "Target", "InputShape", "OutputShape", "Cycles(DDR/NPU/Total)", "Board(us)",
        "Here(us)", "MacUsage(%)", "WorkLoad", "RW(KB)", "FullName",
    ]  # fmt: skip
    hidden = set() if width >= _WIDE else _SHAPES if width >= _MIDDLE else _SHAPES | _DETAILS
    shown = [name for name in columns if name not in hidden]
    right = ("ID", "Cycles(DDR/NPU/Total)", "Board(us)", "Here(us)", "MacUsage(%)", "RW(KB)")
    result = table(*shown, right=right, wrap=("OpType", "InputShape", "OutputShape", "FullName"))
    for row in rows:
        cells = _cells(row)
        result.add_row(*(cells[name] for name in shown))
    return result


def _cells(row: Row) -> dict[str, str | Text]:
    style = "" if row.target == "NPU" else "yellow"
    return {
        "ID": str(row.id),
        "OpType": printable(row.op_type),
        "DataType": row.data_type,
        "Target": Text(row.target, style or "green"),
        "InputShape": _shapes(row.input_shape[: row.activations]),
        "OutputShape": _shapes(row.output_shape),
        "Cycles(DDR/NPU/Total)": _cycles(row),
        "Board(us)": "\\" if row.board_us is None else f"{row.board_us:.0f}",
        "Here(us)": f"{row.here_us:.0f}",
        "MacUsage(%)": "\\" if row.mac_usage_percent is None else f"{row.mac_usage_percent:.1f}",
        "WorkLoad": "/".join(f"{share:.0f}%" for share in row.workload_percent) or "\\",
        "RW(KB)": f"{row.rw_kb:.1f}",
        "FullName": printable(row.full_name),
    }


def _cycles(row: Row) -> str:
    """The vendor writes a backslash where nothing is known."""
    if row.total_cycles is None:
        return "\\"
    return f"{row.ddr_cycles}/{row.npu_cycles}/{row.total_cycles}"


def _shapes(shapes: Iterable[tuple[int, ...]]) -> str:
    return ",".join(f"({','.join(map(str, shape))})" for shape in shapes) or "\\"


def _types(rows: Sequence[Row], output: Output) -> Table:
    kinds = by_type(rows)
    total = sum(kin.board_us for kin in kinds) or 1
    columns = ("OpType", "calls", "Board(us)", "", "share", "Here(us)")
    result = table(*columns, right=("calls", "Board(us)", "share", "Here(us)"))
    ascii_only = output.console.options.ascii_only
    for kin in kinds:
        share = kin.board_us / total
        result.add_row(
            printable(kin.op_type),
            str(kin.calls),
            f"{kin.board_us:.0f}",
            Text(bar(share, _BAR_CELLS, ascii_only=ascii_only), "green"),
            f"{100 * share:.1f} %",
            f"{kin.here_us:.0f}",
        )
    return result
