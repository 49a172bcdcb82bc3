"""The page of `openrknn profile --report`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from openrknn.analysis.board_time import driver_text, source_text, where_text
from openrknn.analysis.profile_summary import Summary
from openrknn.analysis.profiles import Row, by_type
from openrknn.analysis.reports import EstimateReport
from openrknn.pages.frame import asset, document, folded, footer, more_numbers, navigation, section, verdict
from openrknn.pages.markup import Content, Markup, breakable, clean, coded, join, tag
from openrknn.quantities import count_of, count_text, duration, size_text

__all__ = ["Part", "render"]

_MOST_BARS = 12
_MOST_ROWS = 2000
_BOUNDS = "`Bound` is the part of the NPU that limits an operator."


@dataclass(frozen=True, slots=True)
class Part:
    """A model, or one part of a model in parts."""

    rows: Sequence[Row]
    estimate: EstimateReport | None = None
    jobs: int = 0
    tasks: int = 0
    name: str = ""
    """Of a part; empty for a whole model."""
    kind: str = "npu"
    board_us: float = 0.0
    here_us: float = 0.0
    reason: str = ""
    """Why a part runs on the CPU."""


def render(model: str, about: str, summary: Summary, parts: Sequence[Part]) -> str:
    """The page as one text. `about`: chip, cores and clock."""
    title = clean(PurePath(model).name, 80)
    rows = [row for part in parts for row in part.rows]
    content = [
        _parts(parts) if any(part.name for part in parts) else None,
        section("slowest", "Slowest operators", _slowest(rows), note=_note(rows)),
        section("types", "Operator types", _types(rows)),
        *(_operators(place, part) for place, part in enumerate(parts) if part.rows),
        _method(parts),
    ]
    inner = join(content)
    places = [("parts", "Parts"), ("slowest", "Slowest"), ("types", "Types")]
    places += [(f"operators{place}", part.name or "All operators") for place, part in enumerate(parts) if part.rows][:4]
    head = tag(
        "header",
        tag("p", "openrknn profile", class_="brand"),
        tag("h1", title),
        tag("p", clean(about, 200), class_="lead"),
        verdict(summary.level, summary.sentence, _short(summary.numbers), coded(clean(summary.next_step, 400))),
        more_numbers(_more(rows, parts)),
    )
    links = navigation([*places, ("method", "Method")], inner)
    body = join((links, tag("main", head, inner), footer("openrknn profile")))
    return document(f"{title} · openrknn profile", body, style=asset("style.css"))


def _short(numbers: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    return [(label, value, clean(remark, 60)) for label, value, remark in numbers]


def _more(rows: Sequence[Row], parts: Sequence[Part]) -> list[tuple[str, str, str]]:
    found = [
        ("Operators", str(len(rows)), f"{sum(row.target == 'CPU' for row in rows)} on the CPU"),
        ("Arithmetic", f"{count_text(sum(row.macs or 0 for row in rows))}MAC", "multiply-accumulates"),
        ("Memory traffic", size_text(round(sum(row.rw_kb for row in rows) * 1024)), "read and written"),
    ]
    if tasks := sum(part.tasks for part in parts):
        found.append(("Tasks", str(tasks), f"in {count_of(sum(part.jobs for part in parts), 'job')}"))
    return found


def _has_board(rows: Sequence[Row]) -> bool:
    return any(row.board_us for row in rows)


def _note(rows: Sequence[Row]) -> str:
    where = "estimated time on a board" if _has_board(rows) else "time on this machine: no board time is known"
    return f"Bars show the {where}. {_BOUNDS}"


def _microseconds(row: Row, rows: Sequence[Row]) -> float:
    return (row.board_us or 0.0) if _has_board(rows) else row.here_us


def _slowest(rows: Sequence[Row]) -> Markup | None:
    times = [(row, _microseconds(row, rows)) for row in rows]
    total = sum(time for _, time in times)
    ranked = sorted((pair for pair in times if pair[1]), key=lambda pair: -pair[1])[:_MOST_BARS]
    if not ranked:
        return None
    lines = [
        [
            tag("td", duration(time / 1e6), class_="num bar", style=f"--p:{100 * time / ranked[0][1]:.0f}%"),
            tag("td", f"{time / total:.1%}", class_="num"),
            tag("td", row.bound or ("CPU" if row.target == "CPU" else "")),
            tag("td", breakable(clean(row.full_name, 80)), class_="name"),
        ]
        for row, time in ranked
    ]
    return _table(("time", "share", "bound", "operator"), lines, right=("time", "share"))


def _types(rows: Sequence[Row]) -> Markup | None:
    totals = by_type(rows)
    has_board = _has_board(rows)
    times = [entry.board_us if has_board else entry.here_us for entry in totals]
    whole, largest = sum(times) or 1.0, max(times, default=0.0) or 1.0
    lines = [
        [
            tag("td", clean(entry.op_type, 60)),
            tag("td", duration(time / 1e6), class_="num bar", style=f"--p:{100 * time / largest:.0f}%"),
            tag("td", f"{time / whole:.1%}", class_="num"),
            tag("td", entry.calls, class_="num"),
            tag("td", duration(entry.here_us / 1e6), class_="num"),
        ]
        for entry, time in zip(totals, times, strict=True)
    ]
    return _table(("type", "time", "share", "operators", "here"), lines, right=("time", "share", "operators", "here"))


def _parts(parts: Sequence[Part]) -> Markup | None:
    largest = max((part.board_us for part in parts), default=0.0) or 1.0
    lines = [
        [
            tag("td", clean(part.name, 60)),
            tag("td", tag("span", part.kind.upper(), class_=f"pill {part.kind}")),
            tag(
                "td", duration(part.board_us / 1e6), class_="num bar", style=f"--p:{100 * part.board_us / largest:.0f}%"
            ),
            tag("td", duration(part.here_us / 1e6), class_="num"),
            tag("td", clean(part.reason, 200), class_="wrap"),
        ]
        for part in parts
    ]
    made = _table(("part", "runs on", "time on a board", "here", "reason"), lines, right=("time on a board", "here"))
    return section("parts", "Parts", made, note="In execution order.")


def _operators(place: int, part: Part) -> Markup | None:
    lines = [
        [
            tag("td", row.id, class_="num"),
            tag("td", clean(row.op_type, 40)),
            tag("td", tag("span", row.target, class_=f"pill {'npu' if row.target == 'NPU' else 'cpu'}")),
            tag("td", row.data_type),
            tag("td", clean(" ".join("×".join(map(str, shape)) for shape in row.output_shape), 80)),
            tag("td", "" if row.board_us is None else f"{row.board_us:.0f}", class_="num"),
            tag("td", row.bound or ""),
            tag("td", f"{row.here_us:.0f}", class_="num"),
            tag("td", "" if row.mac_usage_percent is None else f"{row.mac_usage_percent:.0f} %", class_="num"),
            tag("td", f"{row.rw_kb:.0f}", class_="num"),
            tag("td", breakable(clean(row.full_name, 120)), class_="name"),
        ]
        for row in part.rows[:_MOST_ROWS]
    ]
    heads = ("#", "type", "runs on", "data type", "output", "board (µs)", "bound", "here (µs)", "MAC usage", "kB moved",
             "operator")  # fmt: skip
    right = ("#", "board (µs)", "here (µs)", "MAC usage", "kB moved")
    left_out = len(part.rows) - _MOST_ROWS
    more = tag("p", f"and {left_out} more: see --json", class_="muted") if left_out > 0 else None
    title = f"Operators of {part.name}" if part.name else "All operators"
    return folded(f"operators{place}", title, _table(heads, lines, right=right), more, note="In execution order.")


def _method(parts: Sequence[Part]) -> Markup | None:
    found = [part for part in parts if part.estimate is not None]
    if not found:
        return None
    lines: list[Content] = []
    for part in found[:1]:
        estimate = part.estimate
        assert estimate is not None
        lines += [tag("p", f"Limited by: {where_text(estimate)}.") if where_text(estimate) else None,
                  tag("p", _sentence(source_text(estimate)))]  # fmt: skip
        if estimate.board_mean_error is not None:
            lines.append(tag("p", _sentence(driver_text(estimate, part.jobs))))
    lines.append(tag("p", "Times here are measured operator by operator, which is slower than a normal run."))
    return folded("method", "How the times were found", *lines)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _table(heads: Sequence[str], lines: Iterable[Sequence[Content]], *, right: Sequence[str]) -> Markup:
    head = tag("tr", *(tag("th", words, scope="col", class_="num" if words in right else None) for words in heads))
    rows = [tag("tr", *cells) for cells in lines]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="table scroll")
