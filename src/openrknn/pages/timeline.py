"""The page of `openrknn trace timeline`: one file, nothing from the network, readable without its script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from openrknn.pages.frame import asset, document, folded, footer, section, verdict
from openrknn.pages.markup import Markup, clean, join, tag
from openrknn.quantities import count_of, duration
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
    header = tag(
        "header",
        tag("p", "openrknn trace timeline", class_="brand"),
        tag("h1", clean(title)),
        tag("p", f"{clean(about)}. Times include the cost of recording.", class_="lead"),
        _verdict(timeline, title),
    )
    lanes = section(
        "lanes", "Over time", _legend(), _chart(groups, timeline.start, timeline.end),
        tag("p", "Point at a span to read what it is.", id="told", class_="script muted"),
        _rest(len(timeline.buffers) - len(buffers)),
    )  # fmt: skip
    totals = folded("ioctls", "All ioctls", _totals(timeline.calls) if timeline.calls else None)
    body = join((tag("main", header, lanes, totals), footer("openrknn trace timeline")))
    style = asset("style.css") + asset("timeline.css")
    style += "".join(f".span-{kind} {{ background: var(--{kind}); }} " for kind, _ in _KINDS)
    return document(f"{clean(title)} · openrknn", body, style=style, script=asset("timeline.js"))


def _verdict(timeline: Timeline, title: str) -> Markup:
    """Whether everything succeeded, how busy the NPU was, and what to look at next."""
    spans = {span for lane in timeline.cores for span in lane.spans}  # a job on several cores is in several lanes
    failed = sum(span.kind == "failed" for span in spans)
    jobs, refused = len(spans), sum(call.failed for call in timeline.calls)
    calls, took = sum(call.count for call in timeline.calls), timeline.end - timeline.start
    share = min(_covered(spans) / took, 1.0)
    if failed:
        level, sentence = "poor", f"{failed} of {count_of(jobs, 'job')} failed"
    elif refused:
        level, sentence = "fair", f"all jobs ran; {refused} of {count_of(calls, 'ioctl')} returned an error"
    elif not jobs:
        level, sentence = "fair", "this trace has no job: the program did not submit work to the NPU"
    else:
        level, sentence = (
            "good",
            f"{count_of(jobs, 'job')} without an error; NPU busy {100 * share:.0f} % of the time",
        )
    numbers = [
        ("Time", duration(took / 1e9), "of the recording"),
        ("NPU busy", f"{100 * share:.0f} %", f"{count_of(jobs, 'job')}, {failed} failed"),
        ("ioctls", f"{calls:,}", f"{refused} failed"),
    ]
    words = "which ioctls failed: " if refused or not jobs else "what each job did: "
    command = f"openrknn trace {'show' if refused or not jobs else 'jobs'} {clean(title, 80)}"
    return verdict(level, sentence, numbers, join((words, tag("code", command))))


def _covered(spans: Iterable[Span]) -> int:
    """The time in which at least one core had a job."""
    total, reached = 0, 0
    for span in sorted(spans, key=lambda span: span.start):
        total += max(span.end - max(span.start, reached), 0)
        reached = max(reached, span.end)
    return total


def _rest(count: int) -> Markup | None:
    return tag("p", f"{count} more buffers are not shown.") if count else None


def _legend() -> Markup:
    entries = [tag("span", tag("i", class_=f"span-{kind}"), word) for kind, word in _KINDS]
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
    scroll = tag("div", time, class_="scroll", tabindex="0", role="region", aria_label="Time")
    return tag("div", tag("div", *names, class_="names"), scroll, class_="lanes")


def _marks(length: int) -> Iterator[Markup]:
    """For readers without a script; the script draws finer ones."""
    for tick in range(_TICKS):
        yield tag("span", duration(length * tick / _TICKS / 1e9), style=f"left:{tick * 100 / _TICKS:g}%")


def _spans(spans: Iterable[Span], start: int, end: int) -> Iterator[Markup]:
    for span in spans:
        first, last = (min(max(moment, start), end) - start for moment in (span.start, span.end))
        left, width = first / (end - start) * 100, max(last - first, 0) / (end - start) * 100
        place = f"left:{left:.5f}%;width:{width:.5f}%"
        yield tag("i", class_=f"span-{span.kind}", style=place, title=f"{span.text} (at {duration(first / 1e9)})")


def _totals(calls: Iterable[CallTotal]) -> Markup:
    head = tag("tr", *(tag("th", word, scope="col") for word in ("ioctl", "calls", "failed", "time", "median")))
    rows = [
        tag("tr", tag("td", clean(call.name)), *(tag("td", text) for text in (
            f"{call.count:,}", f"{call.failed:,}", duration(call.nanoseconds / 1e9), duration(call.median_ns / 1e9),
        )))
        for call in calls
    ]  # fmt: skip
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="totals")
