"""PP-OCR detection (DB, differentiable binarization): one output [1, 1, h, w], the probability of text at each pixel.

    1  pixels above `PIXEL_THRESHOLD` that touch each other are one line; the model is trained to show it thinner
       than it is, so that neighbours stay apart
    2  the score is the mean probability of these pixels
    3  the smallest rectangle around them, grown on every side by   area * GROWTH / perimeter,   undoes the thinning

The numbers are those of PaddleOCR. The first step compares int8 numbers; only what is left becomes floats. (PaddleOCR
can also take the mean over the rectangle, which punishes lines that are bent.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openrknn.vision.decoders.obb import corners_of
from openrknn.vision.heads import Array, Floats, Frame, Head, Settings
from openrknn.vision.polygons import smallest_rectangle
from openrknn.vision.results import Objects

PIXEL_THRESHOLD = 0.3
GROWTH = 1.6
_SMALLEST = 3
"""Thinner rectangles, in pixels of the frame, are noise."""


@dataclass(frozen=True, slots=True)
class _Line:
    centre: Floats
    size: Floats
    angle: float
    score: float


def matches(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """One channel with the resolution of the frame, or a part of it."""
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][:2] != (1, 1):
        return False
    rows, columns = shapes[0][2:]
    return rows > 1 and frame.height % rows == 0 and rows * frame.width == columns * frame.height


def decode(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """Lines of text from top to bottom; `corners` go round each from its upper left."""
    (head,) = heads
    stored = head.values[0, 0]
    lines = []
    for rows, columns in components(stored >= head.limit(PIXEL_THRESHOLD)):
        line = _line(head, stored, rows, columns)
        if line is not None and line.score >= settings.threshold:
            lines.append(line)
    if not lines:
        return Objects.none()
    return _in_reading_order(lines, frame.width / stored.shape[1], settings.limit)


def _line(head: Head, stored: Array, rows: Array, columns: Array) -> _Line | None:
    """The rectangle around one group of pixels. Pixels are squares: their outer corners count."""
    x = np.concatenate([columns, columns + 1, columns, columns + 1])
    y = np.concatenate([rows, rows, rows + 1, rows + 1])
    centre, size, angle = smallest_rectangle(_outline(x, y))
    if size.min() < _SMALLEST:
        return None
    return _Line(*_upright(centre, size, angle), float(head.real(stored[rows, columns]).mean()))


def _outline(x: Array, y: Array) -> Array:
    """Of the points of one column only the highest and the lowest can be corners."""
    order = np.lexsort((y, x))
    x, y = x[order], y[order]
    first = np.flatnonzero(np.r_[True, x[1:] != x[:-1]])
    last = np.r_[first[1:] - 1, len(x) - 1]
    ends = np.concatenate([first, last])
    return np.stack([x[ends], y[ends]], axis=1)


def _upright(centre: Floats, size: Floats, angle: float) -> tuple[Floats, Floats, float]:
    """The rectangle, turned so that its width is along the text: an angle of at most 45 degrees from level.

    Text that runs down the page is higher than wide; it keeps standing.
    """
    if angle > np.pi / 4:
        return centre, size[::-1], angle - np.pi / 2
    return centre, size, angle


def _in_reading_order(lines: Sequence[_Line], scale: float, limit: int) -> Objects:
    best = [line for row in _rows(sorted(lines, key=lambda line: -line.score)[:limit]) for line in row]
    centres = np.stack([line.centre for line in best], axis=1)
    sizes = np.stack([line.size for line in best], axis=1)
    growth = sizes[0] * sizes[1] * GROWTH / (2 * (sizes[0] + sizes[1]))
    corners = corners_of(centres, sizes + 2 * growth, np.array([line.angle for line in best])) * np.float32(scale)
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    scores = np.array([line.score for line in best], np.float32)
    return Objects(boxes, scores, np.zeros(len(best), np.int64), corners=corners)


def _rows(lines: Sequence[_Line]) -> list[list[_Line]]:
    """From top to bottom, what stands beside each other from left to right."""
    apart = 0.5 * float(np.median([line.size[1] for line in lines]))
    rows: list[list[_Line]] = []
    for line in sorted(lines, key=lambda line: float(line.centre[1])):
        if rows and line.centre[1] - rows[-1][-1].centre[1] < apart:
            rows[-1].append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: float(line.centre[0])) for row in rows]


# Groups of pixels that touch each other.
#
# Row by row, runs of set pixels; runs of neighbouring rows that touch, also at a corner, belong together (union-find).


def components(mask: npt.NDArray[np.bool_]) -> Iterator[tuple[Array, Array]]:
    """Rows and columns of the pixels of each group, from the topmost group down."""
    rows, starts, ends = _runs(mask)
    parents = list(range(len(rows)))
    for upper, lower in _touching(rows, starts, ends):
        a, b = _root(parents, upper), _root(parents, lower)
        parents[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for run in range(len(rows)):
        groups.setdefault(_root(parents, run), []).append(run)
    for runs in groups.values():
        lengths = [int(ends[run] - starts[run]) for run in runs]
        yield (
            np.repeat(rows[runs], lengths),
            np.concatenate([np.arange(starts[run], ends[run]) for run in runs]),
        )


def _runs(mask: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Row, first column and end column of each run of set pixels."""
    padded = np.zeros((mask.shape[0], mask.shape[1] + 2), np.int8)
    padded[:, 1:-1] = mask
    steps = np.diff(padded, axis=1)
    rows, starts = np.nonzero(steps == 1)
    return rows, starts, np.nonzero(steps == -1)[1]


def _touching(rows: Array, starts: Array, ends: Array) -> Iterator[tuple[int, int]]:
    """Pairs of runs in neighbouring rows that touch. Both lists are sorted, so one walk along them is enough."""
    first = np.searchsorted(rows, np.arange(rows.max(initial=-1) + 2))
    begin, end = starts.tolist(), ends.tolist()
    for row in range(len(first) - 2):
        upper, lower = int(first[row]), int(first[row + 1])
        upper_stop, lower_stop = lower, int(first[row + 2])
        while upper < upper_stop and lower < lower_stop:
            if begin[upper] <= end[lower] and begin[lower] <= end[upper]:
                yield upper, lower
            if end[upper] < end[lower]:
                upper += 1
            else:
                lower += 1


def _root(parents: list[int], run: int) -> int:
    while parents[run] != run:
        parents[run] = parents[parents[run]]
        run = parents[run]
    return run
