"""The page of `openrknn trace timeline`: one file, nothing from the network, readable without its script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator

from openrknn.cli.report.markup import Markup, clean, join, tag
from openrknn.cli.run_text import duration
from openrknn.trace.timeline import CallTotal, Lane, Span, Timeline

__all__ = ["render"]

_MOST_BUFFERS = 300
_MOST_SPANS = 20_000
_TICKS = 10
_KINDS = (
    ("job", "job"), ("submit", "SUBMIT"), ("memory", "memory"), ("question", "other ioctls"),
    ("life", "a buffer's life"), ("written", "a job wrote into it"), ("failed", "failed"),
)  # fmt: skip
_STYLE = """
:root { color-scheme: light dark; --page: #f5f6f8; --card: #fff; --text: #1b2330; --muted: #566172; --line: #dde2e9;
  --job: #2a69cf; --submit: #1d7a4c; --memory: #a05600; --question: #7a8799; --life: #cfe0fa; --written: #7040c0;
  --failed: #c03535; }
@media (prefers-color-scheme: dark) {
  :root { --page: #11151b; --card: #191f27; --text: #e4e9f0; --muted: #9ba8b8; --line: #2b3440; --job: #79a9f7;
    --submit: #6fcf9c; --memory: #f0b35a; --question: #8b98a9; --life: #25406b; --written: #b796f5; --failed: #ff8b82; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 14px/1.45 system-ui, "Segoe UI", Roboto,
  "DejaVu Sans", sans-serif; }
main { max-width: 1500px; margin: 0 auto; padding: 1.2rem 20px 3rem; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 1.8rem 0 .4rem; }
p { margin: .2rem 0; } .muted { color: var(--muted); }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin: .8rem 0; align-items: center; }
.legend i { display: inline-block; width: 14px; height: 10px; border-radius: 2px; margin-right: .4rem; }
.legend label { margin-left: auto; display: flex; gap: .5rem; align-items: center; }
html:not(.scripted) .script { display: none; }
.chart { display: flex; background: var(--card); border: 1px solid var(--line); border-radius: 10px; overflow: hidden; }
.names { flex: 0 0 19rem; border-right: 1px solid var(--line); }
.scroll { flex: 1; overflow-x: auto; min-width: 0; } .time { position: relative; width: 100%; min-width: 100%; }
.names div, .lane { height: 24px; border-bottom: 1px solid var(--line); white-space: nowrap; }
.names div { padding: 2px 10px; overflow: hidden; text-overflow: ellipsis; font-variant-numeric: tabular-nums; }
.names .head, .group { color: var(--muted); font-weight: 600; background: var(--page); }
.lane { position: relative; }
.lane i { position: absolute; top: 4px; height: 15px; min-width: 2px; border-radius: 2px; }
.lane i.life { top: 8px; height: 7px; } .lane i:hover { outline: 2px solid var(--text); z-index: 2; }
.axis { position: relative; height: 24px; border-bottom: 1px solid var(--line); overflow: hidden; }
.axis span { position: absolute; padding-left: 3px; border-left: 1px solid var(--line); color: var(--muted);
  font-size: 11px; line-height: 24px; white-space: nowrap; }
#told { min-height: 1.6rem; margin-top: .5rem; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; } th, td { text-align: right; padding: .15rem 1.2rem .15rem 0; }
th { color: var(--muted); font-weight: 600; } th:first-child, td:first-child { text-align: left; }
td { font-variant-numeric: tabular-nums; border-top: 1px solid var(--line); }
""" + "".join(f".{kind} {{ background: var(--{kind}); }} " for kind, _ in _KINDS)
_SCRIPT = """
document.documentElement.classList.add("scripted");
const time = document.querySelector(".time"), scroll = document.querySelector(".scroll");
const zoom = document.querySelector("#zoom"), axis = document.querySelector(".axis"), end = Number(time.dataset.end);
const told = document.querySelector("#told");
function text(ns, step) {
  for (const [size, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "us"]])
    if (step >= size / 1000 && ns >= size || unit === "us") {
      const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
      return (ns / size).toFixed(Math.min(digits, 6)) + " " + unit;
    }
}
function ticks() {
  const wanted = end / (axis.clientWidth / 110), power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map(x => x * power).find(x => x >= wanted) || wanted;
  const shown = [0, scroll.clientWidth].map(x => (scroll.scrollLeft + x) / axis.clientWidth * end);
  axis.replaceChildren();
  for (let at = Math.floor(shown[0] / step) * step; at <= Math.min(shown[1], end); at += step) {
    const mark = document.createElement("span");
    mark.style.left = at / end * 100 + "%";
    mark.textContent = text(at, step);
    axis.append(mark);
  }
}
function set(factor, around) {
  const before = (scroll.scrollLeft + around) / time.clientWidth;
  time.style.width = factor * 100 + "%";
  scroll.scrollLeft = before * time.clientWidth - around;
  ticks();
}
zoom.addEventListener("input", () => set(10 ** Number(zoom.value), scroll.clientWidth / 2));
scroll.addEventListener("wheel", event => {
  if (!event.ctrlKey) return;
  event.preventDefault();
  zoom.value = Number(zoom.value) - event.deltaY / 500;
  set(10 ** Number(zoom.value), event.clientX - scroll.getBoundingClientRect().left);
}, {passive: false});
scroll.addEventListener("scroll", ticks);
addEventListener("resize", ticks);
time.addEventListener("mouseover", event => { if (event.target.title) told.textContent = event.target.title; });
ticks();
"""


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
    return _document(f"{clean(title)} · openrknn", body)


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
    return tag("table", head, *rows)


def _document(title: str, body: Markup) -> str:
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("title", title),
        tag("style", Markup(_STYLE)),
    )
    page = tag("html", head, tag("body", body, tag("script", Markup(_SCRIPT))), lang="en")
    return f"<!doctype html>\n{join([page])}\n"
