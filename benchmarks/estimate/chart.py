"""Predicted over published, as a picture: one dot per figure, both axes logarithmic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["Dot", "chart"]

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 760, 520, 60, 50, 40
_LOW, _HIGH = 1.5, 300.0
_COLOURS = {"rk3588": "#2563eb", "rk3566": "#dc2626", "rk3562": "#d97706", "rk3576": "#059669"}
_TICKS = (2, 5, 10, 20, 50, 100, 200)


class Dot(NamedTuple):
    """One figure."""

    chip: str
    network: str
    published_ms: float
    predicted_ms: float


def chart(dots: Iterable[Dot]) -> str:
    """An SVG without anything that has to be loaded."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
    ]
    for tick in _TICKS:
        x, y = _x(tick), _y(tick)
        parts += [
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#e5e7eb"/>',
            f'<line x1="{_LEFT}" x2="{_WIDTH - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e7eb"/>',
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle" fill="#4b5563">{tick}</text>',
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" fill="#4b5563">{tick}</text>',
        ]
    parts += [_line(1.0, "#6b7280", ""), _line(1.15, "#9ca3af", "4 4"), _line(1 / 1.15, "#9ca3af", "4 4")]
    for dot in sorted(dots):
        title = f"{dot.network}, {dot.chip}: {dot.published_ms:.1f} ms published, {dot.predicted_ms:.1f} predicted"
        parts.append(
            f'<circle cx="{_x(dot.published_ms):.1f}" cy="{_y(dot.predicted_ms):.1f}" r="4.5" '
            f'fill="{_COLOURS[dot.chip]}" fill-opacity="0.75"><title>{title}</title></circle>'
        )
    for number, (chip, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + 10 + 110 * number
        parts.append(f'<circle cx="{x}" cy="20" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x + 10}" y="25" fill="#111827">{chip.upper()}</text>')
    middle = (_LEFT + _WIDTH - 20) / 2
    parts += [
        f'<text x="{middle}" y="{_HEIGHT - 10}" text-anchor="middle" fill="#111827">published, ms</text>',
        f'<text transform="translate(16 {_HEIGHT / 2}) rotate(-90)" text-anchor="middle" fill="#111827">'
        "predicted without it, ms</text>",
        f'<text x="{_WIDTH - 24}" y="25" text-anchor="end" fill="#6b7280">dashed: 15 % off</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(value: float) -> float:
    return _LEFT + _part(value) * (_WIDTH - 20 - _LEFT)


def _y(value: float) -> float:
    return _HEIGHT - _BOTTOM - _part(value) * (_HEIGHT - _BOTTOM - _TOP)


def _part(value: float) -> float:
    return math.log(value / _LOW) / math.log(_HIGH / _LOW)


def _line(factor: float, colour: str, dashes: str) -> str:
    start, end = _LOW * max(1.0, 1 / factor), _HIGH / max(1.0, factor)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{_x(start):.1f}" y1="{_y(start * factor):.1f}" x2="{_x(end):.1f}" y2="{_y(end * factor):.1f}" '
        f'stroke="{colour}"{dashed}/>'
    )
