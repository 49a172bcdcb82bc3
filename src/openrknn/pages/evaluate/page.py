"""The page: the verdict, then the worst samples, classes, curves and everything else, folded."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import PurePath

from openrknn.evaluate.report import Report, Worst
from openrknn.evaluate.words import level, next_step, sentence
from openrknn.pages.evaluate.curves import curves
from openrknn.pages.evaluate.tables import classes, confusion, metrics
from openrknn.pages.frame import asset, document, folded, footer, section, verdict
from openrknn.pages.markup import Markup, clean, join, tag
from openrknn.quantities import count_of, duration

__all__ = ["render"]

_ENDS = {
    "budget": "the time budget ended before all samples were evaluated",
    "interrupted": "the evaluation was interrupted",
    "limit": "a random part of the dataset, as --limit asked for",
}
_WITH_BOXES = ("detect", "segment", "pose", "obb")
_MOST_PROBLEMS = 200


def render(report: Report, failures: Sequence[str] = (), *, is_required: bool = False) -> str:
    """The page as one text. `is_required`: whether there were requirements that could fail."""
    title = clean(PurePath(report.model.model).name, 60)
    parts = (
        section("worst", "Worst samples", _worst(report), note=_worst_note(report)),
        section("classes", "Classes", classes(report)),
        section("confusion", "Confusion", confusion(report), note="Rows: what it is; columns: what it was taken for."),
        section("curves", "Precision and recall", curves(report), note="At IoU 0.50. The area below is the mAP50."),
        folded("metrics", "All metrics", metrics(report)),
        folded("details", "Details", _details(report)),
        folded("left-out", "Samples that were left out", _problems(report)),
    )
    body = tag("main", tag("header", tag("p", "openrknn evaluate", class_="brand"), tag("h1", title),
                           _verdict(report, failures, is_required)), *parts)  # fmt: skip
    style = f"{asset('style.css')}\n{asset('evaluate/style.css')}"
    whole = join((body, footer("openrknn evaluate")))
    return document(f"{title} · openrknn evaluate", whole, style=style, pictures=True)


def _verdict(report: Report, failures: Sequence[str], is_required: bool) -> Markup:
    metric = report.metric
    samples = f"{report.evaluated} of {report.total}" if report.evaluated != report.total else str(report.evaluated)
    own = (metric.title, metric.text(report.value), _interval(report))
    if report.reference is not None:
        relative = "" if report.relative_drop is None else f" ({100 * report.relative_drop:+.1f} %)"
        numbers = [own, ("Float", metric.text(report.reference.value), f"loss {_signed(report)}{relative}"),
                   ("Samples", samples, _ENDS.get(report.end, duration(report.seconds)))]  # fmt: skip
    else:
        numbers = [own, ("Samples", samples, _ENDS.get(report.end, "")), ("Time", duration(report.seconds), "")]
    words = failures[0] if failures else sentence(report)
    return verdict(level(report, len(failures), is_required=is_required), words, numbers, next_step(report) or None)


def _signed(report: Report) -> str:
    drop = report.drop or 0.0
    return f"{100 * drop:+.1f} points" if report.metric.is_share else f"{drop:+.3g}"


def _interval(report: Report) -> str:
    if report.model.interval is None:
        return ""
    low, high = report.model.interval
    return f"95 %: {report.metric.text(low)} to {report.metric.text(high)}"


# -- the worst samples -----------------------------------------------------------------------------------------------


def _worst_note(report: Report) -> str:
    if report.reference is not None:
        return "Those that lost the most against the float model first."
    return "Those that went worst first."


def _worst(report: Report) -> Markup | None:
    if not report.worst:
        return None
    has_images = any(one.image for one in report.worst)
    if not has_images:
        return _worst_table(report)
    legend = None
    if report.task in _WITH_BOXES:
        kinds = (("found", "found"), ("missed", "missed"), ("wrong", "found, but not there"))
        keys = [tag("li", tag("span", class_=f"box {look}"), words) for look, words in kinds]
        legend = tag("ul", *keys, class_="keys")
    return join((tag("div", *(_figure(one, report.task) for one in report.worst), class_="worst"), legend))


def _figure(one: Worst, task: str) -> Markup:
    shown = None
    if one.image:
        data = base64.b64encode(one.image).decode("ascii")
        shown = tag("img", src=f"data:image/jpeg;base64,{data}", alt=clean(one.name, 120), loading="lazy")
    lines = [tag("b", clean(one.name, 120)), tag("div", _quality(one, task), class_="muted")]
    if one.expected:
        lines.append(tag("div", "expected: ", clean(one.expected, 300)))
    if one.said:
        lines.append(tag("div", "found: " if one.expected else "", clean(one.said, 300)))
    if one.reference_said and one.reference_said != one.said:
        lines.append(tag("div", "float: ", clean(one.reference_said, 300), class_="muted"))
    return tag("figure", shown, tag("figcaption", *lines))


def _quality(one: Worst, task: str) -> str:
    words = "F1 " if task in _WITH_BOXES else "the right class: " if task == "classify" else ""
    text = f"{words}{100 * one.quality:.0f} %" + ("" if words else " right")
    return text if one.reference_quality is None else f"{text}, float {100 * one.reference_quality:.0f} %"


def _worst_table(report: Report) -> Markup:
    has_float = report.reference is not None
    heads = ["sample", "quality", "expected", "found", *(["float"] if has_float else [])]
    rows = []
    for one in report.worst:
        cells = [clean(one.name, 120), _quality(one, report.task), clean(one.expected, 500), clean(one.said, 500)]
        cells += [clean(one.reference_said, 500)] if has_float else []
        rows.append(tag("tr", *(tag("td", cell, class_="wrap") for cell in cells)))
    head = tag("tr", *(tag("th", words, scope="col") for words in heads))
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="table scroll")


# -- details ---------------------------------------------------------------------------------------------------------


def _details(report: Report) -> Markup:
    pairs = [
        ("model", report.model.model), ("runs as", report.model.about),
        ("dataset", f"{report.dataset} ({report.kind}, {count_of(report.total, 'sample')})"),
        *((("float model", f"{report.reference.model} ({report.reference.about})"),) if report.reference else ()),
        *((name, str(value)) for name, value in report.settings.items()),
        ("time", duration(report.seconds)),
        *(("note", note) for note in report.notes),
        ("interval", "bootstrap over samples, 95 %, corrected for its bias; the loss: same resamples for both"),
    ]  # fmt: skip
    rows = [part for name, value in pairs for part in (tag("dt", name), tag("dd", clean(value, 600)))]
    return tag("div", tag("dl", *rows, class_="pairs"), class_="card")


def _problems(report: Report) -> Markup | None:
    if not report.problems:
        return None
    shown = report.problems[:_MOST_PROBLEMS]
    rows = [tag("li", tag("b", clean(name, 120)), ": ", clean(why, 300)) for name, why in shown]
    left = len(report.problems) - _MOST_PROBLEMS
    more = tag("p", f"and {left} more: see --json", class_="muted") if left > 0 else None
    return tag("div", tag("ul", *rows), more, class_="card")
