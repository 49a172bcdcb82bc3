"""Sound and words over time, in rows like a score: waveform, probability of speech, words, wake words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.pages.markup import Markup, clean, join, tag
from openrknn.voice.audio import Audio
from openrknn.voice.results import Detection, Segment

__all__ = ["row_seconds", "rows"]

_WIDTH, _LEFT = 1200, 6
_WAVE, _CURVE, _WORDS, _AXIS = 74, 34, 26, 20
_HEIGHT = _WAVE + _CURVE + _WORDS + _AXIS
_MOST_ROWS = 60
_POINTS = 600
"""Of the waveform in a row: one for each two units of its width."""
_CHARACTER = 7.2
"""Units that a letter takes; what does not fit is in the tooltip and in the table."""
_MOST_MARKS = 12
_STEPS = (0.5, 1, 2, 5, 10, 30, 60, 300, 600)


def row_seconds(seconds: float) -> float:
    """How much a row shows: ten seconds, or more so that an hour does not need hundreds of rows."""
    return max(10.0, math.ceil(seconds / _MOST_ROWS / 10) * 10.0)


@dataclass(frozen=True)
class _Window:
    """The time that a row shows."""

    start: float
    wide: float

    @property
    def end(self) -> float:
        return self.start + self.wide

    def across(self, time: float) -> float:
        """Where a moment is, from left to right; what is outside is at the edge."""
        share = (min(max(time, self.start), self.end) - self.start) / self.wide
        return round(_LEFT + share * (_WIDTH - 2 * _LEFT), 1)


def rows(
    audio: Audio, chances: Sequence[tuple[float, float]], segments: Sequence[Segment], wakes: Sequence[Detection]
) -> list[Markup]:
    """All rows. `chances` are (time, probability of speech)."""
    wide = row_seconds(audio.seconds)
    loudest = (float(np.abs(audio.samples).max()) if len(audio.samples) else 0.0) or 1.0
    made = []
    for start in np.arange(0.0, max(audio.seconds, 0.001), wide).tolist():
        window = _Window(start, wide)
        said = [part for part in segments if part.end > start and part.start < window.end]
        pieces = [
            *(_shade(part, window) for part in said),
            _wave(audio, window, loudest),
            _curve(chances, window),
            *(_words(part, window) for part in said),
            *(_flag(one, window) for one in wakes if start <= one.time < window.end),
            _axis(window),
        ]
        text = " ".join(clean(part.text, 200) for part in said) or "nothing"
        label = f"{start:.0f} to {min(window.end, audio.seconds):.0f} s: {text}"
        box = f"0 0 {_WIDTH} {_HEIGHT}"
        made.append(tag("svg", join(pieces), viewBox=box, class_="score", role="img", aria_label=label))
    return made


def _shade(part: Segment, window: _Window) -> Markup:
    left, right = window.across(part.start), window.across(part.end)
    tone = f"said tone{part.index % 2}"
    return tag("rect", x=left, y=0, width=max(1.0, right - left), height=_WAVE + _CURVE, class_=tone)


def _flag(one: Detection, window: _Window) -> Markup:
    at = window.across(one.time)
    return tag(
        "g",
        tag("line", x1=at, x2=at, y1=0, y2=_WAVE + _CURVE, class_="wake"),
        tag("text", clean(one.word, 30), x=at + 4, y=12, class_="wakename"),
        tag("title", f"{clean(one.word, 60)} at {one.time:.2f} s, {one.score:.2f}"),
    )


def _wave(audio: Audio, window: _Window, loudest: float) -> Markup | None:
    first, across = int(window.start * audio.rate), int(window.wide * audio.rate)
    per_point = max(1, across // _POINTS)
    piece = audio.samples[first : first + across]
    count = -(-len(piece) // per_point)
    if not count:
        return None
    padded = np.zeros(count * per_point, np.float32)
    padded[: len(piece)] = piece
    shaped = padded.reshape(count, per_point)
    high, low = shaped.max(axis=1), shaped.min(axis=1)
    step = (_WIDTH - 2 * _LEFT) * per_point / across
    middle, half = _WAVE / 2, _WAVE / 2 - 2
    top = _points(_LEFT + step * np.arange(count), middle - half * high / loudest)
    bottom = _points(_LEFT + step * np.arange(count), middle - half * low / loudest)[::-1]
    return tag("path", d=f"M{' L'.join([*top, *bottom])} Z", class_="wave")


def _points(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> list[str]:
    return [f"{a:.1f} {b:.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]


def _curve(chances: Sequence[tuple[float, float]], window: _Window) -> Markup | None:
    base, high = _WAVE + _CURVE, _CURVE - 4
    inside = [(window.across(time), chance) for time, chance in chances if window.start <= time <= window.end]
    if not inside:
        return None
    places = " L".join(f"{at} {base - high * chance:.1f}" for at, chance in inside)
    return tag("path", d=f"M{inside[0][0]} {base} L{places} L{inside[-1][0]} {base} Z", class_="chance")


def _words(part: Segment, window: _Window) -> Markup:
    left, right = window.across(part.start), window.across(part.end)
    fits = max(0, int((right - left) / _CHARACTER))
    text = clean(part.text.strip(), 400)
    rest = _rest(text, part, window)
    shown = rest if len(rest) <= fits else f"{rest[: fits - 1]}…" if fits > 2 else ""
    whole = f"{part.start:.2f} to {part.end:.2f} s: {text}"
    return tag("g", tag("text", shown, x=left, y=_WAVE + _CURVE + 17, class_="words"), tag("title", whole))


def _rest(text: str, part: Segment, window: _Window) -> str:
    """What may be said in this row, if the segment began above: as if all its letters took the same time."""
    if part.start >= window.start or part.end <= part.start:
        return text
    said = int(len(text) * (window.start - part.start) / (part.end - part.start))
    return f"… {text[text.rfind(' ', 0, said + 1) + 1 :]}"


def _axis(window: _Window) -> Markup:
    step = next((step for step in _STEPS if window.wide / step <= _MOST_MARKS), _STEPS[-1])
    base = _WAVE + _CURVE + _WORDS
    drawn = [tag("line", x1=_LEFT, x2=_WIDTH - _LEFT, y1=base, y2=base, class_="tick")]
    for mark in np.arange(math.ceil(window.start / step) * step, window.end + step / 1000, step).tolist():
        at = window.across(mark)
        anchor = "start" if mark == window.start else "end" if mark >= window.end else "middle"
        drawn.append(tag("line", x1=at, x2=at, y1=base, y2=base + 4, class_="tick"))
        drawn.append(tag("text", _clock(mark), x=at, y=base + 16, class_="time", text_anchor=anchor))
    return join(drawn)


def _clock(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
