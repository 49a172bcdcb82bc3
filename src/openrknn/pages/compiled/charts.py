"""Two pictures: where the cycles go, and what is left of the signal on the way."""

from __future__ import annotations

from collections.abc import Sequence

from openrknn.compiler.rows import Row
from openrknn.pages.frame import grade
from openrknn.pages.markup import Content, Markup, clean, join, tag

__all__ = ["cores_chart", "noise_chart", "time_chart"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 1000, 240, 40, 22
_STEPS = (10, 20, 30, 40, 50, 60, 70)
_KINDS = {
    "conv": "convolution", "deep": "depthwise convolution", "pool": "pooling", "other": "additions, tables, copies",
    "cpu": "on the CPU",
}  # fmt: skip
_MOST_BARS = 12


def time_chart(rows: Sequence[Row]) -> Markup:
    """A strip with all operators in order, as wide as they take long; below it the longest ones."""
    total = sum(row.cycles for row in rows) or 1
    pieces = [
        tag("a", href=f"#op{row.number}", class_=f"piece {row.kind}", style=f"flex-grow:{row.cycles}",
            title=f"{row.number} {clean(row.name, 60)}: {row.cycles / 1e3:.1f} k cycles, {row.cycles / total:.1%}")
        for row in rows if row.cycles
    ]  # fmt: skip
    longest = sorted((row for row in rows if row.cycles), key=lambda row: -row.cycles)[:_MOST_BARS]
    top = longest[0].cycles if longest else 1
    bars = [
        tag("a", tag("span", f"{row.number}", class_="who"),
            tag("span", f"{clean(row.name, 40)} {row.shape}", class_="what"),
            tag("span", tag("span", class_=f"fill {row.kind}", style=f"width:{row.cycles / top:.1%}"), class_="track2"),
            tag("span", f"{row.cycles / total:.1%}", class_="share"), href=f"#op{row.number}", class_="long")
        for row in longest
    ]  # fmt: skip
    used = {row.kind for row in rows}
    legend = [tag("span", tag("span", class_=f"dot2 {kind}"), text) for kind, text in _KINDS.items() if kind in used]
    return tag(
        "div", tag("div", join(pieces), class_="strip"), tag("p", join(legend), class_="legend2"),
        tag("div", join(bars), class_="longest"), class_="card",
    )  # fmt: skip


def noise_chart(rows: Sequence[Row]) -> Markup | None:
    """Decibels of every operator's output against float, and of its weights."""
    measured = [row for row in rows if row.output_db is not None]
    if len(measured) < 2:
        return None
    top = min(max(80.0, *(row.output_db or 0 for row in measured)), 100.0)
    parts: list[Content] = []
    for level in (*_STEPS, *range(80, int(top) + 1, 10)):
        y = _y(level, top)
        parts += [
            tag("line", x1=_LEFT, x2=_WIDTH, y1=y, y2=y, class_="grid2"),
            tag("text", str(level), x=_LEFT - 6, y=y + 4, class_="tick", text_anchor="end"),
        ]
    width = (_WIDTH - _LEFT) / max(1, len(rows))
    points = []
    for row in measured:
        x, y = _LEFT + (row.number + 0.5) * width, _y(row.output_db or 0, top)
        points.append(f"{x:.1f},{y:.1f}")
        title = tag("title", f"{row.number} {clean(row.name, 60)}: {row.output_db:.1f} dB")
        dot = tag("circle", title, cx=f"{x:.1f}", cy=f"{y:.1f}", r=3.4, class_=f"spot {grade(row.output_db)}")
        parts.append(tag("a", dot, href=f"#op{row.number}"))
        if row.weights_db is not None:
            mark = _y(min(row.weights_db, top), top)
            parts.insert(0, tag("line", x1=f"{x - width / 3:.1f}", x2=f"{x + width / 3:.1f}", y1=mark, y2=mark,
                                class_="weight"))  # fmt: skip
    line = tag("polyline", points=" ".join(points), class_="course")
    axis = tag("text", "operators in execution order", x=_WIDTH, y=_HEIGHT - 4, class_="tick", text_anchor="end")
    return tag(
        "div",
        tag("svg", line, *parts, axis, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", class_="noise",
            aria_label="signal to noise ratio of every operator"),
        tag("p", tag("span", tag("span", class_="dot2 good"), "output, 30 dB and more"),
            tag("span", tag("span", class_="dot2 fair"), "20 to 30 dB"),
            tag("span", tag("span", class_="dot2 poor"), "below 20 dB"),
            tag("span", tag("span", class_="dash2"), "weights alone"), class_="legend2"),
        class_="card scroll",
    )  # fmt: skip


def _y(decibels: float, top: float) -> float:
    room = _HEIGHT - _BOTTOM - 10
    return round(_HEIGHT - _BOTTOM - min(max(decibels, 0.0), top) / top * room, 1)



def cores_chart(by_cores: dict[str, int], rows: Sequence[Row]) -> Markup | None:
    """How long one run takes on one, two and three cores."""
    if len(by_cores) < 2:
        return None
    one = by_cores["1"]
    bars = [
        tag("div", tag("span", f"{cores} core{'' if cores == '1' else 's'}", class_="who"),
            tag("span", tag("span", class_="fill conv", style=f"width:{cycles / one:.1%}"), class_="track2"),
            tag("span", f"{cycles / 1e6:.2f} M cycles, {one / max(1, cycles):.2f} ×", class_="share"),
            class_="long cores")
        for cores, cycles in by_cores.items()
    ]  # fmt: skip
    shared = sum(1 for row in rows if row.cores > 1)
    total = sum(1 for row in rows if row.tasks)
    said = f"{shared} of {total} operators of the NPU are shared; the rest is done by core 0."
    return tag("div", tag("div", join(bars), class_="longest"), tag("p", said, class_="muted"), class_="card")
