"""The page of `openrknn trace timeline`: one file, nothing from the network, readable without its script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from openrknn.pages.frame import asset, document
from openrknn.pages.markup import Markup, clean, tag
from openrknn.quantities import duration
from openrknn.trace.timeline import CallTotal, Lane, Span, Timeline

__all__ = ["render"]

_MOST_BUFFERS = 300
_MOST_SPANS = 20_000
_TICKS = 10
_KINDS = (
    ("job", "job"), ("submit", "SUBMIT"), ("memory", "memory"), ("question", "other ioctls"),
    ("life", "a buffer's life"), ("written", "a job wrote into it"), ("failed", "failed"),
)  # fmt: skip


def render(timeline: Timeline, title: str, about: str) -> str:
    """The page as one text."""
    buffers = timeline.buffers[:_MOST_BUFFERS]
    groups = [("NPU", timeline.cores), ("ioctls", timeline.files), ("buffers, by device address", buffers)]
    seconds = duration((timeline.end - timeline.start) / 1e9)
    body = tag(
        "main",
        tag("h1", clean(title)),
        tag("p", f"{clean(about)}; {seconds} in all. Times include what recording costs.", class_="muted"),
        _legend(),
        _chart(groups, timeline.start, timeline.end),
        tag("p", "Point at something to read what it is.", id="told", class_="script muted"),
        _rest(len(timeline.buffers) - len(buffers)),
        tag("h2", "All ioctls"),
        _totals(timeline.calls),
        tag("p", "Written by openrknn trace timeline. This page is one file and loads nothing.", class_="muted"),
    )
    style = asset("timeline.css") + "".join(f".{kind} {{ background: var(--{kind}); }} " for kind, _ in _KINDS)
    return document(f"{clean(title)} · openrknn", body, style=style, script=asset("timeline.js"))


def _rest(count: int) -> Markup | None:
    return tag("p", f"{count} more buffers are not shown.") if count else None


def _legend() -> Markup:
    entries = [tag("span", tag("i", class_=kind), word) for kind, word in _KINDS]
    zoom = tag("input", type="range", id="zoom", min="0", max="5", step="0.01", value="0")
    return tag("div", *entries, tag("label", "zoom", zoom, class_="script"), class_="legend")


def _chart(groups: list[tuple[str, tuple[Lane, ...]]], start: int, end: int) -> Markup:
    names = [tag("div", "time", class_="head")]
    lanes = [tag("div", *_marks(end - start), class_="axis")]
    left = _MOST_SPANS
    for word, group in groups:
        names.append(tag("div", word, class_="head"))
        lanes.append(tag("div", class_="lane group"))
        for lane in group:
            names.append(tag("div", lane.name, " ", tag("span", clean(lane.about), class_="muted"), title=lane.about))
            lanes.append(tag("div", *_spans(lane.spans[:left], start, end), class_="lane"))
            left = max(left - len(lane.spans), 0)
    time = tag("div", *lanes, class_="time", data_end=end - start)
    return tag("div", tag("div", *names, class_="names"), tag("div", time, class_="scroll"), class_="chart")


def _marks(length: int) -> Iterator[Markup]:
    """For readers without a script; the script draws finer ones."""
    for tick in range(_TICKS):
        yield tag("span", duration(length * tick / _TICKS / 1e9), style=f"left:{tick * 100 / _TICKS:g}%")


def _spans(spans: Iterable[Span], start: int, end: int) -> Iterator[Markup]:
    for span in spans:
        first, last = (min(max(moment, start), end) - start for moment in (span.start, span.end))
        left, width = first / (end - start) * 100, max(last - first, 0) / (end - start) * 100
        place = f"left:{left:.5f}%;width:{width:.5f}%"
        yield tag("i", class_=span.kind, style=place, title=f"{span.text} (at {duration(first / 1e9)})")


def _totals(calls: Iterable[CallTotal]) -> Markup:
    head = tag("tr", *(tag("th", word) for word in ("ioctl", "calls", "failed", "time", "median")))
    rows = [
        tag("tr", tag("td", clean(call.name)), *(tag("td", text) for text in (
            f"{call.count:,}", f"{call.failed:,}", duration(call.nanoseconds / 1e9), duration(call.median_ns / 1e9),
        )))
        for call in calls
    ]  # fmt: skip
    return tag("div", tag("table", head, *rows), class_="totals")
