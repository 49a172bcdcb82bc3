"""Long lines of text, cut where there is no ink.

A reader has an input of fixed width, 320 pixels for 48 rows: about seven times as wide as high. A longer line would be
squeezed until nobody could read it, so it is cut into parts, each in the emptiest column near where it should end.
"""

from __future__ import annotations

import math

import numpy as np

from openrknn.vision.heads import Floats, Frame
from openrknn.vision.pictures import Pixels

_LONGEST = 0.85
"""Of the proportions of the reader's input: boxes of lines have room above and below, so the letters are smaller."""
_REACH = 0.35
"""How far from its ideal place a cut may be, in parts of the part's width."""
_GAP = 0.18
"""A gap of this part of the height is a space between words."""
_EMPTY = 0.25
"""A column with less than this part of the usual ink is empty."""


def parts_of_line(line: Pixels, frame: Frame) -> list[tuple[Pixels, str]]:
    """The parts from left to right, each with what stands before it: a space or nothing."""
    height, width = line.shape[:2]
    longest = _LONGEST * frame.width / frame.height * height
    count = math.ceil(width / longest)
    if count == 1:
        return [(line, "")]
    ink = _ink(line)
    step = width / count
    places = [_cut(ink, step * number, step * _REACH) for number in range(1, count)]
    edges = [0, *places, width]
    spaces = ["", *(" " if _is_space(ink, place, height) else "" for place in places)]
    return [
        (line[:, start:end], space)
        for start, end, space in zip(edges[:-1], edges[1:], spaces, strict=True)
        if end > start
    ]


def _ink(line: Pixels) -> Floats:
    """[width]: how much each column differs from the paper, which is the most common brightness in it."""
    gray = line.astype(np.float32).mean(axis=2)
    paper = np.median(gray, axis=0)
    return np.asarray(np.abs(gray - paper).mean(axis=0), np.float32)


def _cut(ink: Floats, ideal: float, reach: float) -> int:
    """The middle of the widest empty gap within reach, or the column with the least ink."""
    first, last = max(int(ideal - reach), 1), min(int(ideal + reach), len(ink) - 1)
    part = ink[first:last]
    if not part.size:
        return int(ideal)
    start, length = _widest_gap(part < _EMPTY * max(float(np.median(ink)), 1e-3))
    return first + (start + length // 2 if length else int(part.argmin()))


def _widest_gap(empty: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> tuple[int, int]:
    steps = np.diff(np.r_[0, empty.astype(np.int8), 0])
    starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    if not starts.size:
        return 0, 0
    widest = int((ends - starts).argmax())
    return int(starts[widest]), int(ends[widest] - starts[widest])


def _is_space(ink: Floats, place: int, height: int) -> bool:
    limit = _EMPTY * max(float(np.median(ink)), 1e-3)
    left, right = place, place
    while left > 0 and ink[left - 1] < limit:
        left -= 1
    while right < len(ink) and ink[right] < limit:
        right += 1
    return right - left >= _GAP * height
