"""The tables of `openrknn inspect`: operators, shapes, memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from openrknn.analysis.reports import GraphReport, InputReport, ModelReport, OperatorReport, OutputReport, TensorUse
from openrknn.cli.common.output import printable
from openrknn.cli.common.tables import table
from openrknn.pages.model.memory import alive_bytes
from openrknn.quantities import count_text, shape_text, size_text

__all__ = [
    "heaviest", "layout_text", "memory", "memory_line", "operator_types", "operators", "outputs", "plain_lines",
    "shapes",
]  # fmt: skip

_WIDE = 100
_NARROW = 76
_DETAILS = {"name", "in", "dtype", "tasks", "weights"}
_HEAVIEST = 5
_BAR_CELLS = 10
_HEIGHTS = "▁▂▃▄▅▆▇█"
_PLACEMENTS = {"npu": "green", "cpu": "yellow", "gpu": "yellow", "custom": "magenta"}


def _table(*columns: str, right: Sequence[str] = (), title: str | None = None) -> Table:
    return table(*columns, right=right, wrap=[name for name in columns if name not in right], heading=title)


def plain_lines(table: Table) -> Iterator[str]:
    """The lines of a long table, as wide as they are: rich needs seconds for thousands of rows."""
    columns = [[column.header, *column.cells] for column in table.columns]
    texts = [[str(cell).replace("\n", ", ") for cell in cells] for cells in columns]
    widths = [max(map(len, cells)) for cells in texts]
    rights = [column.justify == "right" for column in table.columns]
    for row in zip(*texts, strict=True):
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, rights, strict=True)
        )
        yield "  ".join(padded).rstrip()


def _placement(name: str) -> Text:
    return Text(name, _PLACEMENTS.get(name, ""))


def layout_text(item: InputReport | OutputReport) -> str:
    """ "NHWC"; layouts are named for four dimensions only."""
    return item.layout.upper() if len(item.shape) == 4 and item.layout != "undefined" else ""


def outputs(items: Sequence[OutputReport]) -> Table:
    """The outputs, one per row."""
    drawn = _table("name", "shape", "layout", "dtype", "scale", "zero", "holds", right=("scale", "zero"))
    for item in items:
        drawn.add_row(
            Text(printable(item.name), "bold green"),
            shape_text(item.shape),
            layout_text(item),
            item.dtype,
            "" if item.scale is None else f"{item.scale:.6g}",
            "" if item.zero_point is None else str(item.zero_point),
            "" if item.range is None else f"{item.range[0]:.4g} .. {item.range[1]:.4g}",
        )
    return drawn


def operators(graph: GraphReport, width: int) -> Table:
    """Every operator; names and shapes of inputs only where there is room for them."""
    return _operator_table([row for row in graph.operators if not row.is_boundary], width)


def heaviest(graph: GraphReport, width: int) -> Table:
    """The operators with the most work."""
    rows = sorted(graph.operators, key=lambda row: row.macs or 0, reverse=True)[:_HEAVIEST]
    return _operator_table([row for row in rows if row.macs], width, title="the most work is in")


def _operator_table(rows: Sequence[OperatorReport], width: int, title: str | None = None) -> Table:
    names = ["#", "type", "on", "name", "in", "out", "dtype", "tasks", "weights", "MAC"]
    hidden = set() if width >= _WIDE else {"name", "in"} if width >= _NARROW else _DETAILS
    names = [name for name in names if name not in hidden]
    drawn = _table(*names, right=("#", "tasks", "weights", "MAC"), title=title)
    for row in rows:
        cells: dict[str, str | Text] = {
            "#": str(row.index),
            "type": printable(row.type),
            "on": _placement(row.placement),
            "name": printable(row.name),
            "in": _shapes(row.inputs),
            "out": _shapes(row.outputs),
            "dtype": _dtype(row.outputs),
            "tasks": str(row.tasks.get("1", 0) or ""),
            "weights": size_text(row.weight_bytes) if row.weight_bytes else "",
            "MAC": "?" if row.macs is None else count_text(row.macs) if row.macs else "",
        }
        drawn.add_row(*(cells[name] for name in names))
    return drawn


def _shapes(tensors: Sequence[TensorUse]) -> str:
    # Scratch memory of the compiler is listed among the inputs; it is not data.
    return "\n".join(shape_text(tensor.shape) for tensor in tensors if not tensor.name.endswith("_exSecondary"))


def _dtype(tensors: Sequence[TensorUse]) -> str:
    return "\n".join(dict.fromkeys(tensor.dtype for tensor in tensors))


def operator_types(graph: GraphReport, width: int) -> Table:
    """One row per type and placement, the most work first; without bars where types need their room."""
    groups: dict[tuple[str, str], list[OperatorReport]] = {}
    for row in graph.operators:
        if not row.is_boundary:
            groups.setdefault((row.type, row.placement), []).append(row)
    drawn = _table(
        "type", "on", "count", "tasks", "weights", "MAC", "share", right=("count", "tasks", "weights", "MAC")
    )
    total = graph.totals.macs
    for (kind, placement), rows in sorted(groups.items(), key=lambda item: _order(item[1])):
        work = sum(row.macs or 0 for row in rows)
        weights = sum(row.weight_bytes for row in rows)
        drawn.add_row(
            printable(kind),
            _placement(placement),
            str(len(rows)),
            str(sum(row.tasks.get("1", 0) for row in rows) or ""),
            size_text(weights) if weights else "",
            count_text(work) if work else "",
            (_bar(work / total) if width >= _NARROW else f"{work / total:.0%}") if total and work else "",
        )
    return drawn


def _order(rows: Sequence[OperatorReport]) -> tuple[int, int, str]:
    return -sum(row.macs or 0 for row in rows), -len(rows), rows[0].type


def _bar(share: float) -> Text:
    return Text.assemble((f"{100 * share:3.0f}% ", ""), ("#" * round(share * _BAR_CELLS), "blue"))


def memory_line(graph: GraphReport, width: int) -> Text | None:
    """How many bytes of activations are alive, from the first operator to the last."""
    alive = alive_bytes(graph.memory, max((row.index for row in graph.operators), default=-1) + 1)
    if len(alive) < 3 or not max(alive):
        return None
    cells = min(len(alive), max(width, 1))
    peak = max(alive)
    columns = [
        max(alive[number * len(alive) // cells : max((number + 1) * len(alive) // cells, 1)]) for number in range(cells)
    ]
    bars = "".join(_HEIGHTS[min(value * len(_HEIGHTS) // peak, len(_HEIGHTS) - 1)] for value in columns)
    return Text.assemble(
        "activations alive over time, at most ", size_text(peak), f" at #{alive.index(peak)}\n", (bars, "blue")
    )


def shapes(report: ModelReport) -> Table:
    """Dynamic shapes: what each graph takes and gives."""
    drawn = _table("graph", "inputs", "outputs", "activations", right=("graph", "activations"))
    for graph in report.graphs:
        drawn.add_row(
            str(graph.index),
            "  ".join(shape_text(shape) for shape in graph.input_shapes),
            "  ".join(shape_text(shape) for shape in graph.output_shapes),
            size_text(graph.totals.internal_bytes),
        )
    return drawn


def memory(graph: GraphReport) -> Table:
    """Where activations lie, and from which operator to which they are alive."""
    drawn = _table("offset", "bytes", "alive", "kind", "tensor", right=("offset", "bytes", "alive"))
    for life in graph.memory:
        drawn.add_row(
            f"{life.offset:#x}",
            str(life.size_bytes),
            f"{life.first} .. {life.last}" if life.first >= 0 else "never",
            life.kind,
            printable(life.tensor),
        )
    return drawn
