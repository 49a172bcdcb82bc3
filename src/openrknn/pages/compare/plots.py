"""The pictures of the page, as inline SVG: noise by operator, differences in steps, clouds of pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from openrknn.analysis.accuracy.measure import Layer
from openrknn.analysis.accuracy.metrics import STEPS, Cloud
from openrknn.analysis.accuracy.result import describe
from openrknn.pages.markup import Markup, clean, join, tag

__all__ = ["KINDS", "agreement", "cloud", "noise"]

_WIDTH, _LEFT, _RIGHT, _BOTTOM = 1240, 46, 10, 34
_HEIGHT, _BAND_HEIGHT = 300, 150
_TOP_DB, _STEP_DB = 80, 20
_MOST_LABELS = 40
_CLOUD = 260
_LEVELS = 6

KINDS = (("equal", "equal"), ("one", "one step apart"), ("two", "two steps"), ("more", "three steps or more"))
"""Class and words of the parts of the agreement chart."""


class _Frame(NamedTuple):
    """Where things are in a chart with one column per layer."""

    columns: int
    height: int
    top: int = 12

    @property
    def pitch(self) -> float:
        return (_WIDTH - _LEFT - _RIGHT) / max(self.columns, 1)

    @property
    def depth(self) -> int:
        return self.height - self.top - _BOTTOM

    def x(self, column: float) -> float:
        """The middle of a column."""
        return _LEFT + (column + 0.5) * self.pitch

    def y(self, share: float) -> float:
        """0 is the bottom, 1 the top."""
        return self.top + (1 - share) * self.depth


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def noise(series: Sequence[tuple[str, str, Sequence[Layer]]], order: Sequence[Layer]) -> Markup:
    """Signal-to-noise ratio by operator; `series` are (class, words, layers), `order` gives the columns."""
    frame = _Frame(len(order), _HEIGHT)
    places = {layer.tensor: column for column, layer in enumerate(order)}
    grid = [_level(frame, level / _TOP_DB, f"{level} dB") for level in range(0, _TOP_DB + 1, _STEP_DB)]
    lines = [_line(frame, look, layers, places) for look, _, layers in series]
    return _chart(
        frame,
        "Signal-to-noise ratio of every tensor, in decibel; higher is better",
        *grid,
        *_labels(frame, order),
        *lines,
    )


def _line(frame: _Frame, look: str, layers: Sequence[Layer], places: dict[str, int]) -> Markup:
    points = []
    for layer in layers:
        value = layer.metrics.snr_db
        share = 1.0 if value is None else min(max(value / _TOP_DB, 0.0), 1.0)
        said = f"{describe(layer)}: {'no difference' if value is None else f'{value:.1f} dB'}"
        points.append((frame.x(places[layer.tensor]), frame.y(share), said, value is None))
    # An operator without any difference is a mark at the top; a line up to it would look like a change.
    known = [(x, y) for x, y, _, exact in points if not exact]
    path = " ".join(f"{'L' if number else 'M'}{_number(x)} {_number(y)}" for number, (x, y) in enumerate(known))
    dots = [
        tag("circle", tag("title", clean(said)), cx=_number(x), cy=_number(y), r=3.5, class_="none" if exact else None)
        for x, y, said, exact in points
    ]
    return tag("g", tag("path", d=path or "M0 0"), *dots, class_=f"series {look}")


def agreement(layers: Sequence[Layer], order: Sequence[Layer]) -> Markup | None:
    """How many elements differ by how many steps, as a stacked column per layer; None without integers."""
    if not any(layer.metrics.steps for layer in layers):
        return None
    frame = _Frame(len(order), _BAND_HEIGHT)
    places = {layer.tensor: column for column, layer in enumerate(order)}
    columns = [_column(frame, places[layer.tensor], layer) for layer in layers if layer.metrics.steps]
    grid = [_level(frame, share, f"{round(100 * share)} %") for share in (0, 0.5, 1)]
    return _chart(
        frame, "Share of elements that are equal, one, two or more steps apart", *grid, *columns,
        *_labels(frame, order),
    )  # fmt: skip


def _column(frame: _Frame, place: int, layer: Layer) -> Markup:
    counts = dict.fromkeys((look for look, _ in KINDS), 0)
    for step, count in zip(STEPS, layer.metrics.steps or (), strict=True):
        counts[KINDS[min(abs(step), len(KINDS) - 1)][0]] += count
    whole, at = max(sum(counts.values()), 1), 0.0
    width = max(frame.pitch * 0.86, 1)
    said = ", ".join(f"{words} {100 * counts[look] / whole:.2f} %" for look, words in KINDS)
    parts = []
    for look, count in counts.items():
        share = count / whole
        if share:
            top, bottom = frame.y(at + share), frame.y(at)
            parts.append(
                tag("rect", x=_number(frame.x(place) - width / 2), y=f"{top:.2f}", width=_number(width),
                    height=f"{max(bottom - top, 0.4):.2f}", class_=look)
            )  # fmt: skip
        at += share
    return tag("g", tag("title", clean(f"{describe(layer)}: {said}")), *parts)


def cloud(layer: Layer, pairs: Cloud) -> Markup:
    """Reference to the right, ours upwards: a straight line is good, a plateau is a clipped range."""
    size = len(pairs.counts)
    cell = _CLOUD / size
    most = max(max(row) for row in pairs.counts)
    cells = [
        tag("rect", x=_number(column * cell), y=_number(_CLOUD - (row + 1) * cell), width=_number(cell + 0.2),
            height=_number(cell + 0.2), class_=f"d{_level_of(count, most)}")
        for column, counts in enumerate(pairs.counts)
        for row, count in enumerate(counts)
        if count
    ]  # fmt: skip
    said = f"{describe(layer)}: reference against the NPU, from {pairs.low:.3g} to {pairs.high:.3g}"
    return tag(
        "svg",
        tag("line", x1=0, y1=_CLOUD, x2=_CLOUD, y2=0, class_="diagonal"),
        *cells,
        viewBox=f"0 0 {_CLOUD} {_CLOUD}",
        class_="cloud",
        role="img",
        aria_label=clean(said),
    )


def _level_of(count: int, most: int) -> int:
    """1 for a single pair, `_LEVELS` for the fullest cell."""
    if most <= 1:
        return _LEVELS
    return 1 + round((_LEVELS - 1) * math.log(count) / math.log(most))


def _level(frame: _Frame, share: float, words: str) -> Markup:
    y = frame.y(share)
    return join(
        (
            tag("line", x1=_LEFT, y1=_number(y), x2=_WIDTH - _RIGHT, y2=_number(y), class_="rule"),
            tag("text", words, x=_LEFT - 6, y=_number(y + 4), class_="end"),
        )
    )


def _labels(frame: _Frame, order: Sequence[Layer]) -> list[Markup]:
    """Numbers of operators below the columns, as many as there is room for."""
    every = max(-(-len(order) // _MOST_LABELS), 1)
    return [
        tag("text", "in" if layer.operator is None else str(layer.operator), x=_number(frame.x(column)),
            y=frame.height - _BOTTOM + 18, class_="mid")
        for column, layer in enumerate(order)
        if column % every == 0
    ]  # fmt: skip


def _chart(frame: _Frame, said: str, *content: Markup) -> Markup:
    return tag("svg", *content, viewBox=f"0 0 {_WIDTH} {frame.height}", class_="chart", role="img", aria_label=said)
