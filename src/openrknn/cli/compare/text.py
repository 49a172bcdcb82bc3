"""What `openrknn compare` draws in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from openrknn.analysis.accuracy.measure import Layer
from openrknn.analysis.accuracy.result import Comparison, head, is_below, remarks, verdict
from openrknn.cli.common.output import Output, printable
from openrknn.cli.common.tables import bar, facts, indented, table, title

__all__ = ["show"]

_WIDE, _MIDDLE = 124, 84
_TOP_DB = 80.0
_BAR_CELLS = 10


def show(comparison: Comparison, output: Output) -> None:
    """The table of layers, and what deserves a look."""
    output.show(facts(head(comparison)))
    for heading, layers in (("Free run: errors add up", comparison.free), ("Each operator alone", comparison.isolated)):
        if layers:
            output.show(title(heading), *indented(_layers(layers, comparison.limit, output)))
    output.show(title(verdict(comparison)))
    for remark in remarks(comparison):
        output.show(Text(f"  {printable(remark)}"))


def _layers(layers: Sequence[Layer], limit: float, output: Output) -> Table:
    width = output.console.width
    has_steps = any(layer.metrics.equal is not None for layer in layers)
    has_overflow = any(layer.metrics.overflowed for layer in layers)
    columns = ["#", "type", "tensor", "cosine", "SNR dB", "", "max error", "relative"]
    columns += ["equal %", "±1 %", "clipped", "at ends"] if has_steps else []
    columns += ["overflow"] if has_overflow else []
    hidden = set() if width >= _WIDE else {"", "at ends"} if width >= _MIDDLE else {"", "at ends", "relative", "type"}
    shown = [name for name in columns if name not in hidden]
    rows = table(*shown, right=[name for name in shown if name not in {"type", "tensor", ""}], wrap=("tensor", "type"))
    for layer in layers:
        cells = _cells(layer, limit, ascii_only=output.console.options.ascii_only)
        rows.add_row(*(cells[name] for name in shown))
    return rows


def _cells(layer: Layer, limit: float, *, ascii_only: bool) -> dict[str, str | Text]:
    metrics = layer.metrics
    style = "red" if is_below(layer, limit) else ""
    snr = metrics.snr_db
    share = 1.0 if snr is None else snr / _TOP_DB
    return {
        "#": "" if layer.operator is None else str(layer.operator),
        "type": printable(layer.op_type) + (f" +{layer.hidden}" if layer.hidden else ""),
        "tensor": Text(printable(layer.tensor), "bold"),
        "cosine": Text("" if metrics.cosine is None else f"{metrics.cosine:.5f}", style),
        "SNR dB": "∞" if snr is None else f"{snr:.1f}",
        "": Text(bar(share, _BAR_CELLS, ascii_only=ascii_only), style or "green"),
        "max error": f"{metrics.max_error:.3g}",
        "relative": "" if metrics.relative_error is None else f"{metrics.relative_error:.2e}",
        "equal %": _percent(metrics.equal),
        "±1 %": _percent(metrics.within_one),
        "clipped": str(metrics.clipped or ""),
        "at ends": f"{metrics.at_low}/{metrics.at_high}" if metrics.at_low or metrics.at_high else "",
        "overflow": Text(str(metrics.overflowed or ""), "bold red"),
    }


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"
