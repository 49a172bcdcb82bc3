"""Precision over recall, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from openrknn.evaluate.metrics.scores import Curve
from openrknn.evaluate.report import Report
from openrknn.pages.markup import Markup, join, tag

__all__ = ["curves"]

_WIDTH, _HEIGHT = 560, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 12, 40
_MOST_CLASSES = 100


def curves(report: Report) -> Markup | None:
    """The mean of all classes for both models, and each class behind them."""
    own = report.model.scores.curves
    if not own:
        return None
    lines = [_line(curve, "class") for curve in own[1 : 1 + _MOST_CLASSES]]
    other: Sequence[Curve] = report.reference.scores.curves if report.reference else ()
    if other:
        lines.append(_line(other[0], "float"))
    lines.append(_line(own[0], "own"))
    said = "Precision over recall at IoU 0.50, the mean over classes"
    box = f"0 0 {_WIDTH} {_HEIGHT}"
    drawing = tag("svg", *_axes(), *lines, viewBox=box, class_="curve", role="img", aria_label=said)
    keys = [_key("npu", "NPU, all classes" if other else "all classes")]
    if other:
        keys.append(_key("cpu", "float, all classes", dashed=True))
    keys.append(_key("edge", "each class"))
    return tag("div", drawing, tag("ul", *keys, class_="keys"), class_="card")


def _x(value: float) -> float:
    return _LEFT + value * (_WIDTH - _LEFT - _RIGHT)


def _y(value: float) -> float:
    return _TOP + (1 - value) * (_HEIGHT - _TOP - _BOTTOM)


def _line(curve: Curve, look: str) -> Markup:
    values: Any = curve.precision.tolist()
    points = [(_x(at / (len(values) - 1)), _y(max(value, 0.0))) for at, value in enumerate(values)]
    places = " ".join(f"{'L' if at else 'M'}{x:.1f} {y:.1f}" for at, (x, y) in enumerate(points))
    return tag("path", tag("title", curve.name), d=places, class_=look)


def _axes() -> list[Markup]:
    parts = []
    for step in range(0, 6):
        value = step / 5
        parts.append(tag("line", x1=_x(value), x2=_x(value), y1=_y(0), y2=_y(1), class_="rule"))
        parts.append(tag("line", x1=_x(0), x2=_x(1), y1=_y(value), y2=_y(value), class_="rule"))
        parts.append(tag("text", f"{value:g}", x=_x(value), y=_y(0) + 15, text_anchor="middle"))
        parts.append(tag("text", f"{value:g}", x=_LEFT - 6, y=_y(value) + 4, text_anchor="end"))
    parts.append(tag("text", "recall", x=_x(0.5), y=_HEIGHT - 6, text_anchor="middle"))
    parts.append(tag("text", "precision", x=12, y=_y(0.5), text_anchor="middle",
                     transform=f"rotate(-90 12 {_y(0.5):.1f})"))  # fmt: skip
    return [join(parts)]


def _key(color: str, words: str, *, dashed: bool = False) -> Markup:
    look = "key dashed" if dashed else "key"
    return tag("li", tag("span", class_=look, style=f"--hue:var(--{color})"), words)
