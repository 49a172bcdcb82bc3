"""`TextReader`: finds lines of text with one model and reads them with another."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator

import numpy as np

from openrknn.closing import Closing
from openrknn.vision.heads import Array
from openrknn.vision.pictures import Pixels, cut_out
from openrknn.vision.pipeline import Pipeline
from openrknn.vision.result import Result
from openrknn.vision.results import Objects, Reading
from openrknn.vision.text_parts import parts_of_line

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
