"""`TextReader`: finds lines of text with one model and reads them with another."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator

import numpy as np

from openrknn.closing import Closing
from openrknn.vision.heads import Array, Floats, Frame
from openrknn.vision.pictures import Pixels, cut_out
from openrknn.vision.pipeline import Pipeline
from openrknn.vision.result import Result
from openrknn.vision.results import Objects, Reading

_TURNED = 1.5
"""A line so much higher than wide runs down the page; it is turned to be read."""


class TextReader(Closing):
    """`finder` is a PP-OCR detection pipeline, `reader` a recognition pipeline.

        with TextReader(Pipeline("det.rknn"), Pipeline("rec.rknn")) as read:
            print(read("page.jpg").found.texts)
    """

    def __init__(self, finder: Pipeline, reader: Pipeline) -> None:
        for pipeline, task, what in ((finder, "text", "finds"), (reader, "read", "reads")):
            if pipeline.family.task != task:
                raise ValueError(f"{pipeline!r} is not a model that {what} text")
        self.finder, self.reader = finder, reader

    def __call__(self, picture: object, name: str = "") -> Result:
        return self._read(self.finder(picture, name))

    def stream(self, sources: Iterable[str | os.PathLike[str]]) -> Iterator[Result]:
        """As `Pipeline.stream`."""
        return map(self._read, self.finder.stream(sources))

    def _read(self, result: Result) -> Result:
        if result.pixels is None or not isinstance(result.found, Objects) or result.found.corners is None:
            return result
        started = time.perf_counter()
        lines = [self._line(result.pixels, corners) for corners in result.found.corners]
        scores = np.array([line.score for line in lines], np.float32)
        return result.with_texts(tuple(line.text for line in lines), scores, time.perf_counter() - started)

    def _line(self, pixels: Pixels, corners: Array) -> Reading:
        part = cut_out(pixels, corners)
        if part.shape[0] > _TURNED * part.shape[1]:
            part = np.ascontiguousarray(np.rot90(part))
        texts, scores = [], []
        for piece, space in parts_of_line(part, self.reader.frame):
            found = self.reader(piece, "line").found
            assert isinstance(found, Reading)  # the family says so
            if found.text:
                texts.append(space + found.text)
                scores.append(found.score)
        return Reading("".join(texts), float(np.mean(scores)) if scores else 0.0)

    def close(self) -> None:
        """Close both pipelines."""
        self.finder.close()
        self.reader.close()


# Long lines of text, cut where there is no ink.
#
# A reader has an input of fixed width, 320 pixels for 48 rows: about seven times as wide as high. A longer line would
# be squeezed until nobody could read it, so it is cut into parts, each in the emptiest column near where it should end.

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
