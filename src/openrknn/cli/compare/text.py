"""What `openrknn compare` draws in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from openrknn.cli.compare.measure import Layer
from openrknn.cli.compare.report import Comparison, first_drift, is_below, losses
from openrknn.cli.output import Output, printable
from openrknn.cli.tables import bar, facts, indented, table, title
from openrknn.cli.words import count_of

__all__ = ["describe", "remarks", "show", "verdict"]

_WIDE, _MIDDLE = 124, 84
_TOP_DB = 80.0
_BAR_CELLS = 10
_MOST_LOSSES = 3
_MOST_NAMES = 4


def show(comparison: Comparison, output: Output) -> None:
    """The table of layers, and what deserves a look."""
    output.show(facts(head(comparison)))
    for heading, layers in (("Free run: errors add up", comparison.free), ("Each operator alone", comparison.isolated)):
        if layers:
            output.show(title(heading), *indented(_layers(layers, comparison.limit, output)))
    output.show(title(verdict(comparison)))
    for remark in remarks(comparison):
        output.show(Text(f"  {printable(remark)}"))


def head(comparison: Comparison) -> list[tuple[str, str]]:
    """What was compared with what."""
    kind = "as it is, in float32" if comparison.reference == "float" else "with the weights and rounding of the file"
    compared = comparison.tensors - len(comparison.unmatched)
    return [
        ("model", f"{comparison.model} on the software NPU ({comparison.chip})"),
        ("reference", f"{comparison.onnx}, {kind}, by {comparison.engine}"),
        ("input", "; ".join(comparison.fed)),
        ("tensors", f"{compared} of {comparison.tensors} have a counterpart in the ONNX model"),
    ]


def verdict(comparison: Comparison) -> str:
    """One line: where it starts to drift, or that it does not."""
    drift = first_drift(comparison.layers, comparison.limit)
    if drift is None:
        ends = [layer for layer in comparison.layers if layer.tensor in comparison.outputs]
        worst = min((layer.metrics.cosine for layer in ends if layer.metrics.cosine is not None), default=None)
        said = "" if worst is None else f"; outputs have a cosine of {worst:.5f} or more"
        return f"No operator drifts below a cosine of {comparison.limit:g}{said}"
    mode = "The first operator that drifts" if comparison.free else "The first operator whose own error is large"
    how = "all zeros" if drift.metrics.cosine is None else f"cosine {drift.metrics.cosine:.5f}"
    return f"{mode}: {describe(drift)}, {how}"


def describe(layer: Layer) -> str:
    """ "#12 ConvRelu (t24)"."""
    number = "" if layer.operator is None else f"#{layer.operator} "
    return f"{number}{layer.op_type} ({layer.tensor})"


def remarks(comparison: Comparison) -> list[str]:
    """What else deserves a look, the most important first."""
    layers = comparison.layers
    found = [f"wrong by itself: {describe(layer)}, {_own_error(layer)}" for layer in comparison.culprits[:_MOST_LOSSES]]
    found += [f"lint: {line}" for line in comparison.lint[:_MOST_LOSSES]]
    found += [
        f"overflow: {count_of(layer.metrics.overflowed, 'element')} of {describe(layer)} are infinite or NaN"
        for layer in layers
        if layer.metrics.overflowed
    ][:_MOST_LOSSES]
    if comparison.free:
        for loss in losses(layers)[:_MOST_LOSSES]:
            after = loss.layer.metrics.snr_db or 0.0
            found.append(f"large loss: {describe(loss.layer)} from {loss.before_db:.1f} to {after:.1f} dB")
    clipped = sorted(layers, key=lambda layer: layer.metrics.clipped / layer.metrics.elements, reverse=True)
    for layer in clipped[:_MOST_LOSSES]:
        if layer.metrics.clipped:
            share = 100 * layer.metrics.clipped / layer.metrics.elements
            found.append(f"clipped: {share:.2g} % of {describe(layer)} do not fit into its range")
    pruned = [layer for layer in layers if layer.pruned]
    if pruned:
        count = sum(layer.pruned for layer in pruned)
        found.append(f"pruned by the compiler, left out here: {count_of(count, 'channel')} of {_names(pruned)}")
    if comparison.foreign_weights and comparison.reference == "quantized":
        names = ", ".join(comparison.foreign_weights[:_MOST_NAMES])
        found.append(f"weights that the compiler changed, so the ONNX model's are used: {names}")
    return found


def _own_error(layer: Layer) -> str:
    cosine = layer.metrics.cosine
    return "on the reference's numbers: " + (f"cosine {cosine:.5f}" if cosine is not None else "all zeros")


def _names(layers: Sequence[Layer]) -> str:
    shown = ", ".join(layer.tensor for layer in layers[:_MOST_NAMES])
    return f"{shown} and {len(layers) - _MOST_NAMES} more" if len(layers) > _MOST_NAMES else shown


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
