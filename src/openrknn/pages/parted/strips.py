"""Parts in their order as two strips: as wide as they take long, and as wide as they have products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from openrknn.analysis.parted.report import PartedReport, PartReport
from openrknn.pages.markup import Markup, join, tag
from openrknn.quantities import count_text, duration

__all__ = ["strips", "types_text"]

_LABEL_SHARE = 0.035
"""A piece that is narrower has no room for its number."""
_NAMES = {"npu": "NPU", "cpu": "CPU (ONNX Runtime)"}


def strips(report: PartedReport) -> Markup:
    """Both, one below the other."""
    parts = report.ordered()
    rows = [_strip("Time on a board", parts, lambda part: part.board_us, lambda part: duration(part.board_us / 1e6))]
    if report.first.macs:
        rows.append(_strip("Products", parts, lambda part: part.macs, lambda part: f"{count_text(part.macs)}MAC"))
    used = {part.kind for part in parts}
    legend = [tag("span", tag("span", class_=f"dot2 {kind}"), words) for kind, words in _NAMES.items() if kind in used]
    return tag("div", *rows, tag("p", *legend, class_="legend2"), class_="card")


def _strip(
    words: str, parts: Sequence[PartReport], size: Callable[[PartReport], float], text: Callable[[PartReport], str]
) -> Markup:
    total = sum(map(size, parts)) or 1.0
    pieces = [
        tag("a", str(part.number) if size(part) / total > _LABEL_SHARE else None, href=f"#part{part.number}",
            class_=f"piece {part.kind}", style=f"flex-grow:{max(size(part), total / 2000):.6g}",
            title=f"part {part.number} on the {part.kind.upper()}: {text(part)}, {size(part) / total:.1%}; "
                  f"{types_text(part, 4)}")
        for part in parts
    ]  # fmt: skip
    npu = sum(size(part) for part in parts if part.kind == "npu") / total
    head = tag("p", tag("b", words), tag("span", f"{npu:.1%} in parts of the NPU", class_="muted"), class_="striphead")
    return tag("div", head, tag("div", join(pieces), class_="strip"), class_="onestrip")


def types_text(part: PartReport, most: int, dots: str = " …") -> str:
    """ "Conv 12, Relu 11 …"."""
    shown = [f"{kind} {count}" if count > 1 else kind for kind, count in list(part.types.items())[:most]]
    return ", ".join(shown) + (dots if len(part.types) > most else "")
