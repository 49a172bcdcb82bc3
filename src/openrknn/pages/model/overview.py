"""The top of the page: what the model is, what to look out for, what to feed and what comes out."""

from __future__ import annotations

from collections.abc import Iterable

from openrknn.analysis.board_time import where_text
from openrknn.analysis.reports import Finding, GraphReport, InputReport, ModelReport, OutputReport
from openrknn.pages.frame import finding_card, more_numbers, verdict
from openrknn.pages.markup import Content, Markup, clean, join, tag
from openrknn.pages.model.texts import dims, number, percent
from openrknn.quantities import count_text, duration, numbers_text, size_text

__all__ = ["ends", "findings", "header"]

_MAX_CARDS = 64
_FIRST_FINDINGS, _FIRST_ENDS = 4, 7
"""Shown at once; the others are folded."""
_ORDER = {"error": 0, "warning": 1, "note": 2}


def header(report: ModelReport, title: str) -> Markup:
    """Name, origin and the key numbers."""
    origin = report.origin
    built = filter(None, (origin.chip, f"toolkit {origin.toolkit_version}" if origin.toolkit_version else "",
                          f"from {origin.framework}" if origin.framework else ""))  # fmt: skip
    return tag(
        "header",
        tag("p", "openrknn inspect", class_="brand"),
        tag("h1", title),
        tag("p", clean(" · ".join(built)), class_="lead"),
        _verdict(report, title),
        more_numbers(_numbers(report)),
        _about(report),
        id="top",
    )


def _verdict(report: ModelReport, title: str) -> Markup:
    """Where the model runs and what stands out; time, size and memory; what to do next."""
    graph = report.graphs[0]
    totals = graph.totals
    ranked = sorted(report.findings, key=lambda finding: _ORDER.get(str(finding.severity), 0))
    level = {"error": "poor", "warning": "fair"}.get(str(ranked[0].severity) if ranked else "", "good")
    fallback = next((finding.what for finding in ranked if finding.code == "cpu-fallback"), "")
    chip = report.origin.chip or "an unknown chip"
    sentence = f"Runs on the NPU of {chip}; {fallback}" if fallback else f"Runs entirely on the NPU of {chip}"
    if level != "good":
        sentence = ranked[0].what
    numbers = [
        *_time(report),
        ("Internal memory", size_text(totals.internal_bytes), "for activations"),
        ("File", size_text(report.size_bytes), _precision(graph)),
    ]
    step: Content = tag("code", f"openrknn run {clean(title, 60)} --input FILE")
    if level != "good" and ranked[0].action:
        step = clean(ranked[0].action, 300)
    return verdict(level, sentence, numbers, step)


def _numbers(report: ModelReport) -> Iterable[tuple[str, str, str]]:
    graph = report.graphs[0]
    totals = graph.totals
    one = totals.tasks.get("1", 0)
    runtime = report.runtime
    return (
        ("File", size_text(report.size_bytes), _precision(graph)),
        ("Operators", f"{totals.operators:,}", _places(graph)),
        *_time(report),
        ("Work per run", f"{count_text(totals.macs)}", _unknown(totals.macs_unknown)),
        ("Weights", size_text(totals.weight_bytes), percent(totals.weight_bytes, report.size_bytes) + " of file"),
        ("Internal memory", size_text(totals.internal_bytes), "for activations"),
        ("NPU tasks", f"{one:,}", f"{size_text(totals.command_bytes)} commands"),
        ("Oldest runtime", runtime.version or "unknown", f"{runtime.library}, {runtime.certainty}"),
    )


def _time(report: ModelReport) -> Iterable[tuple[str, str, str]]:
    """What one core of a board takes; nothing where no board figure exists."""
    estimate = report.estimate
    if estimate is not None and estimate.time_ms is not None and estimate.bound:
        low, high = estimate.low_ms, estimate.high_ms
        span = f"{duration(low / 1e3)} to {duration(high / 1e3)}, " if low and high else ""
        yield "Time on a board", duration(estimate.time_ms / 1e3), f"{span}{where_text(estimate)}"


def _precision(graph: GraphReport) -> str:
    """The type that most activations have."""
    types: dict[str, int] = {}
    for tensor in graph.memory:
        types[tensor.dtype] = types.get(tensor.dtype, 0) + 1
    ranked = sorted(types, key=lambda name: -types[name])
    return " + ".join(ranked[:2]) + " activations" if ranked else ""


def _places(graph: GraphReport) -> str:
    placements = graph.totals.placements
    return ", ".join(f"{amount:,} {name.upper()}" for name, amount in sorted(placements.items(), reverse=True))


def _unknown(amount: int) -> str:
    return f"{amount} operators not counted" if amount else "multiply-accumulates"


def _about(report: ModelReport) -> Markup:
    origin, runtime = report.origin, report.runtime
    rows: list[tuple[str, str]] = [
        ("Target", f"{origin.target} ({origin.platform or 'no platform name'}, {origin.cores} cores)"),
        ("Container", f"{origin.flavour}, version {origin.container_version}, model format {origin.format_version}"),
        ("Compiler", origin.compiler),
        ("Runtime", f"{runtime.library} {runtime.version or 'unknown'} ({runtime.certainty}): {runtime.evidence}"),
        ("Refused by", runtime.refused_by),
        ("Vendor advises", runtime.advised),
        ("Batch", str(report.batch_size) if report.batch_size > 1 else ""),
        ("Shapes", f"dynamic: {report.graph_count} graphs" if report.is_dynamic else ""),
        ("Custom string", report.custom_string),
        ("Custom operators", ", ".join(report.custom_operators[:20])),
    ]
    return tag(
        "details",
        tag("summary", "About this file"),
        _pairs((name, clean(text, 400)) for name, text in rows if text),
        class_="about",
    )


def _pairs(rows: Iterable[tuple[str, Content]]) -> Markup:
    return tag("dl", *(join((tag("dt", name), tag("dd", value))) for name, value in rows), class_="pairs")


def findings(report: ModelReport) -> Markup:
    """What is worth a look, the worst first."""
    ranked = sorted(report.findings, key=lambda finding: _ORDER.get(str(finding.severity), 0))
    if not ranked:
        return tag("p", tag("span", "✓", class_="ok", aria_hidden="true"), " Nothing stands out.", class_="calm")
    shown = [_finding(finding) for finding in ranked[:_MAX_CARDS]]
    left_out = len(ranked) - len(shown)
    first = tag("ul", *shown[:_FIRST_FINDINGS], class_="findings")
    rest = tag("ul", *shown[_FIRST_FINDINGS:], class_="findings") if shown[_FIRST_FINDINGS:] else None
    more = tag("p", f"and {left_out} more") if left_out else None
    return join((first, _rest(len(ranked) - _FIRST_FINDINGS, "findings", rest, more)))


def _rest(amount: int, words: str, *content: Content) -> Markup | None:
    """What does not fit on the first screens, to be opened."""
    if amount <= 0:
        return None
    return tag("details", tag("summary", f"{amount} more {words}"), *content, class_="about")


def _finding(finding: Finding) -> Markup:
    return finding_card(
        str(finding.severity),
        tag("b", clean(finding.what, 600)),
        tag("p", clean(finding.why, 600)) if finding.why else None,
        tag("p", "→ ", clean(finding.action, 600), class_="do") if finding.action else None,
    )


def ends(report: ModelReport) -> Markup:
    """A card for each input and output."""
    cards = [_input(entry) for entry in report.inputs[:_MAX_CARDS]]
    cards += [_output(entry) for entry in report.outputs[:_MAX_CARDS]]
    rest = tag("div", *cards[_FIRST_ENDS:], class_="grid ends") if cards[_FIRST_ENDS:] else None
    first = tag("div", *cards[:_FIRST_ENDS], class_="grid ends")
    return join((first, _rest(len(cards) - _FIRST_ENDS, "inputs and outputs", rest)))


def _input(entry: InputReport) -> Markup:
    rows: list[tuple[str, Content]] = [("Inside the model", _inside(entry))]
    if entry.normalizes:
        rows.append(("Mean", numbers_text(entry.mean[:8])))
        rows.append(("Std", numbers_text(entry.std[:8])))
    if entry.calibrated_as_bgr:
        rows.append(("Channels", "calibrated as BGR"))
    if entry.dynamic_shapes:
        rows.append(("Shapes", ", ".join(dims(shape) for shape in entry.dynamic_shapes[:12])))
    return _end("input", entry, "Feed", entry.feed, rows)


def _output(entry: OutputReport) -> Markup:
    return _end("output", entry, "Read", entry.read, [("Inside the model", _inside(entry))])


def _inside(entry: InputReport | OutputReport) -> str:
    layout = "" if entry.native_layout == "undefined" else f"{entry.native_layout} "
    return f"{entry.dtype} {layout}{dims(entry.native_shape)}, {size_text(entry.native_bytes)}"


def _end(
    word: str, entry: InputReport | OutputReport, verb: str, sentence: str, rows: list[tuple[str, Content]]
) -> Markup:
    if entry.scale is not None:
        rows.append(("Quantisation", f"scale {number(entry.scale)}, zero point {entry.zero_point}"))
    for name, span in (("Can hold", entry.range), ("Calibrated", entry.calibrated)):
        if span is not None:
            rows.append((name, f"{number(span[0])} … {number(span[1])}"))
    layout = "" if entry.layout == "undefined" else entry.layout.upper()
    return tag(
        "article",
        tag("p", tag("span", word, class_="pill io"), " ", tag("b", clean(entry.name, 80))),
        tag("p", dims(entry.shape), " ", tag("span", layout, class_="muted"), class_="shape"),
        tag("p", tag("b", verb, " "), clean(sentence, 600), class_="feed"),
        tag("details", tag("summary", "Layout and quantisation"), _pairs(rows), class_="about"),
        class_=f"card {word}",
    )
