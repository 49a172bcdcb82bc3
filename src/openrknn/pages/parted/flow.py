"""Which part feeds which: boxes from left to right in the order in which they run, and the values between them."""

from __future__ import annotations

from openrknn.analysis.parted.report import PartedReport
from openrknn.pages.markup import Content, Markup, clean, tag
from openrknn.quantities import count_of, duration

__all__ = ["flow"]

_WIDTH, _HEIGHT, _GAP, _TOP, _STEP = 150, 62, 56, 26, 13
_MOST_PARTS = 80
_ROOM = 9
"""Characters between two boxes."""
_MOST_ROWS = 12
"""Of lines that pass below other boxes."""


def flow(report: PartedReport) -> Markup | None:
    """The drawing; nothing for a single part."""
    parts = report.ordered()[:_MOST_PARTS]
    if len(parts) < 2:
        return None
    places: dict[str, int] = {port.name: 0 for port in report.inputs}
    lines: dict[tuple[int, int], list[str]] = {}
    for column, part in enumerate(parts, 1):
        for name in part.inputs:
            if name in places:
                lines.setdefault((places[name], column), []).append(name)
        places.update(dict.fromkeys(part.outputs, column))
    for port in report.outputs:
        if port.name in places:
            lines.setdefault((places[port.name], len(parts) + 1), []).append(port.name)
    long = sorted((pair for pair in lines if pair[1] - pair[0] > 1), key=lambda pair: pair[1] - pair[0])
    rows = {pair: min(number, _MOST_ROWS) for number, pair in enumerate(long)}
    height = _TOP + _HEIGHT + 20 + _STEP * (max(rows.values(), default=-1) + 2)
    width = (len(parts) + 2) * (_WIDTH + _GAP) - _GAP
    drawn: list[Content] = [_line(pair, names, rows.get(pair)) for pair, names in lines.items()]
    drawn.append(_end(0, "inputs", [port.name for port in report.inputs]))
    for column, part in enumerate(parts, 1):
        head = f"{part.number} · {part.kind.upper()}"
        more = f"{count_of(part.operators, 'operator')}, {duration(part.board_us / 1e6)}"
        box = _box(column, head, _short(", ".join(part.types)), more, f"node {part.kind}")
        title = tag("title", clean(f"part {part.number}: {part.reason}", 200))
        drawn.append(tag("a", title, box, href=f"#part{part.number}"))
    drawn.append(_end(len(parts) + 1, "outputs", [port.name for port in report.outputs]))
    left_out = len(report.ordered()) - len(parts)
    return tag(
        "div",
        tag("svg", *drawn, viewBox=f"0 0 {width} {height}", width=width, height=height, class_="graph flow",
            role="img", aria_label="Parts and the values between them"),
        tag("p", f"and {left_out} more parts", class_="muted") if left_out else None,
        class_="card scroll",
    )  # fmt: skip


def _x(column: int) -> int:
    return column * (_WIDTH + _GAP)


def _box(column: int, head: str, middle: str, below: str, look: str) -> Markup:
    x = _x(column)
    return tag(
        "g",
        tag("rect", x=x + 1, y=_TOP, width=_WIDTH - 2, height=_HEIGHT, rx=8),
        tag("text", head, x=x + 10, y=_TOP + 19, class_="t"),
        tag("text", middle, x=x + 10, y=_TOP + 36),
        tag("text", below, x=x + 10, y=_TOP + 52, class_="s"),
        class_=look,
    )


def _end(column: int, words: str, names: list[str]) -> Markup:
    more = f"and {len(names) - 2} more" if len(names) > 2 else _short(names[1]) if len(names) > 1 else ""
    return _box(column, words, _short(names[0]) if names else "", more, "node io")


def _line(pair: tuple[int, int], names: list[str], row: int | None) -> Markup:
    """Neighbours are joined straight; others by a line below the boxes between them."""
    left, right = _x(pair[0]) + _WIDTH, _x(pair[1])
    title = tag("title", clean(", ".join(names), 300))
    if row is None:
        y = _TOP + _HEIGHT // 2
        way = tag("path", title, d=f"M{left},{y} L{right - 4},{y}")
        is_short = len(names) == 1 and len(names[0]) <= _ROOM
        words = _short(names[0]) if is_short else count_of(len(names), "value")
        text = tag("text", words, x=(left + right) // 2, y=y - 7, class_="s m")
        return tag("g", way, text, class_="edges")
    low = _TOP + _HEIGHT + 16 + _STEP * row
    start, stop = left - 18 - 3 * row, right + 18 + 3 * row
    bottom = _TOP + _HEIGHT
    way = tag("path", title, d=f"M{start},{bottom} V{low - 6} Q{start},{low} {start + 6},{low} H{stop - 6} "
                               f"Q{stop},{low} {stop},{low - 6} V{bottom + 4}")  # fmt: skip
    return tag("g", way, class_="edges")


def _short(text: str, limit: int = 18) -> str:
    return clean(text, limit)
