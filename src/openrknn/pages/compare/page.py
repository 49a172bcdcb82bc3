"""The page about a comparison: one file with plots, nothing from the network and no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from openrknn.analysis.accuracy.measure import Layer
from openrknn.analysis.accuracy.result import (
    Comparison,
    describe,
    first_drift,
    head,
    is_below,
    losses,
    remarks,
)
from openrknn.analysis.accuracy.result import verdict as sentence_of
from openrknn.pages.compare import plots
from openrknn.pages.frame import asset, document, folded, footer, navigation, section, verdict
from openrknn.pages.markup import Content, Markup, breakable, clean, join, tag

__all__ = ["render"]

_PLACES = (("top", "Overview"), ("noise", "Noise"), ("steps", "Steps"), ("pairs", "Pairs"), ("layers", "Tensors"))
_MODES = (("free", "free run: errors add up"), ("isolated", "each operator alone, on the reference's numbers"))
_MOST_CLOUDS = 6
_COLUMNS = (
    "#", "Type", "Tensor", "Cosine", "SNR dB", "Max error", "Relative", "Equal %", "±1 %", "Clipped", "At ends",
    "Overflow", "Alone: SNR dB", "Alone: equal %",
)  # fmt: skip
_TEXT_COLUMNS = {"Type", "Tensor"}


def render(comparison: Comparison) -> str:
    """The page as one text."""
    title = clean(PurePath(comparison.model).name, 120)
    body = tag(
        "main",
        _header(comparison, title),
        section("noise", "Noise by operator", _noise(comparison)),
        section("steps", "Differences in quantisation steps", *_agreement(comparison)),
        section("pairs", "Reference against NPU", _clouds(comparison)),
        folded("layers", "All tensors", _table(comparison)),
    )
    style = asset("style.css") + asset("compare/plots.css")
    whole = join((navigation(_PLACES, body), body, footer("openrknn compare")))
    return document(f"{title} · openrknn compare", whole, style=style)


def _header(comparison: Comparison, title: str) -> Markup:
    rest = [tag("li", clean(remark)) for remark in remarks(comparison)]
    pairs = [item for name, value in head(comparison)[1:] for item in (tag("dt", name), tag("dd", clean(value)))]
    return tag(
        "header",
        tag("p", "openrknn compare", class_="brand"),
        tag("h1", title),
        tag("p", f"on the software NPU, {comparison.chip}, beside the ONNX model", class_="lead"),
        _verdict(comparison),
        tag("ul", *rest) if rest else None,
        tag("dl", *pairs, class_="pairs"),
        id="top",
    )


def _verdict(comparison: Comparison) -> Markup:
    """What the comparison says, the worst output, the first drift, and what to try."""
    drift = first_drift(comparison.layers, comparison.limit)
    level = "poor" if comparison.is_bad else "fair" if drift else "good"
    layers = _order(comparison)
    ends = [layer.metrics.snr_db for layer in layers if layer.tensor in comparison.outputs]
    worst = min((value for value in ends if value is not None), default=None)
    numbers = [
        ("Worst output", "equal" if worst is None else f"{worst:.1f} dB", "against float"),
        ("First drift", clean(drift.op_type, 24), describe(drift)) if drift else ("First drift", "none", ""),
        ("Tensors compared", f"{len(layers):,}", ""),
    ]
    step: Content = None
    if drift is not None:
        step = join(("look at ", tag("b", clean(describe(drift), 80)), " below, or compile with ",
                     tag("code", "--auto-mixed"), ", which gives fp16 to the operators that need it"))  # fmt: skip
    return verdict(level, sentence_of(comparison), numbers, step)


def _layers_of(comparison: Comparison, mode: str) -> list[Layer]:
    return comparison.free if mode == "free" else comparison.isolated


def _order(comparison: Comparison) -> list[Layer]:
    return comparison.free or comparison.isolated


def _legend(entries: Iterable[tuple[str, str]]) -> Markup:
    keys = (tag("li", tag("span", class_=f"dot {look}"), words) for look, words in entries)
    return tag("ul", *keys, class_="legend")


def _noise(comparison: Comparison) -> Markup:
    known = {layer.tensor for layer in _order(comparison)}
    series = [
        (mode, words, [layer for layer in _layers_of(comparison, mode) if layer.tensor in known])
        for mode, words in _MODES
        if _layers_of(comparison, mode)
    ]
    legend = _legend((mode, words) for mode, words, _ in series)
    note = tag("p", "Operators by number; hollow: no difference at all.", class_="muted")
    return tag("div", legend, plots.noise(series, _order(comparison)), note, class_="card plot")


def _agreement(comparison: Comparison) -> list[Markup | None]:
    found: list[Markup | None] = []
    known = {layer.tensor for layer in _order(comparison)}
    for mode, words in _MODES:
        layers = [layer for layer in _layers_of(comparison, mode) if layer.tensor in known]
        chart = plots.agreement(layers, _order(comparison)) if layers else None
        if chart is not None:
            found.append(tag("div", tag("h3", words.capitalize()), _legend(plots.KINDS), chart, class_="card plot"))
    return found


def _clouds(comparison: Comparison) -> Markup | None:
    """The tensors that deserve a look: the first drift, the largest losses, the outputs."""
    layers = _order(comparison)
    drift = first_drift(layers, comparison.limit)
    wanted = [drift] if drift else []
    wanted += [loss.layer for loss in losses(layers)]
    wanted += [layer for layer in reversed(layers) if layer.tensor in comparison.outputs]
    chosen = list({layer.tensor: layer for layer in wanted}.values())[:_MOST_CLOUDS]
    cards = [
        tag(
            "div",
            tag("h3", clean(describe(layer), 60)),
            plots.cloud(layer, layer.cloud),
            tag(
                "p",
                tag("span", f"{layer.cloud.low:.3g} to {layer.cloud.high:.3g}"),
                tag("span", f"cosine {layer.metrics.cosine or 0:.5f}"),
                class_="pair",
            ),
            class_="card",
        )
        for layer in chosen
        if layer.cloud is not None
    ]
    note = "Cells count elements: the reference to the right, the NPU upwards. A plateau is a range that is too small."
    return join((tag("p", note, class_="intro"), tag("div", *cards, class_="grid"))) if cards else None


def _table(comparison: Comparison) -> Markup:
    alone = {layer.tensor: layer for layer in comparison.isolated} if comparison.free else {}
    looks = [None if name in _TEXT_COLUMNS else "num" for name in _COLUMNS]
    header = tag("tr", *(tag("th", name, class_=look) for name, look in zip(_COLUMNS, looks, strict=True)))
    rows = []
    for layer in _order(comparison):
        cells = _cells(layer, alone.get(layer.tensor))
        row = (tag("td", cell, class_=look) for cell, look in zip(cells, looks, strict=True))
        rows.append(tag("tr", *row, class_="below" if is_below(layer, comparison.limit) else None))
    table = tag("table", tag("thead", header), tag("tbody", *rows))
    return tag("div", tag("div", table, class_="scroll tall"), class_="table")


def _cells(layer: Layer, alone: Layer | None) -> Sequence[Content]:
    metrics = layer.metrics
    own = alone.metrics if alone else None
    return (
        "" if layer.operator is None else str(layer.operator),
        clean(layer.op_type, 40) + (f" +{layer.hidden}" if layer.hidden else ""),
        breakable(clean(layer.tensor, 120)),
        "" if metrics.cosine is None else f"{metrics.cosine:.6f}",
        "∞" if metrics.snr_db is None else f"{metrics.snr_db:.1f}",
        f"{metrics.max_error:.4g}",
        "" if metrics.relative_error is None else f"{metrics.relative_error:.2e}",
        _percent(metrics.equal),
        _percent(metrics.within_one),
        f"{metrics.clipped:,}" if metrics.clipped else "",
        f"{metrics.at_low:,} / {metrics.at_high:,}" if metrics.at_low or metrics.at_high else "",
        f"{metrics.overflowed:,}" if metrics.overflowed else "",
        "" if own is None else "∞" if own.snr_db is None else f"{own.snr_db:.1f}",
        "" if own is None else _percent(own.equal),
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"
