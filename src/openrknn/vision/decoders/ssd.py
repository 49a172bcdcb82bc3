"""SSD with a MobileNet or Inception body, as TensorFlow's detection API makes it.

    place  [1, n, 4] (or [1, n, 1, 4]): y, x, height, width      score  [1, n, classes], class 0 is background

or, where the network ends in its convolutions, both for each of the six grids, k boxes in a cell:

    place  [1, k * 4, rows, columns]      score  [1, k * classes, rows, columns]

Priors: grids of frame / 16, / 32 ... down to one cell. Layer k of the six has scale s_k, evenly from 0.2 to 0.95 of
the frame, and per cell a box of each ratio r with width s sqrt(r), height s / sqrt(r): in the first layer (0.1, 1),
(0.2, 2), (0.2, 1/2), in the others 1, 2, 1/2, 3, 1/3 and one more square of scale sqrt(s_k s_k+1). For 300x300 these
are 1917.

    centre = c + v_xy / 10 * p      size = p * e^(v_wh / 5)         c, p: centre and size of the prior
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from openrknn.vision.grids import boxes_from_centres, sigmoid
from openrknn.vision.heads import Array, Floats, Frame, Head, Settings
from openrknn.vision.nms import select
from openrknn.vision.results import Objects

_LAYERS = 6
_SMALLEST, _LARGEST = 0.2, 0.95
_RATIOS = (1.0, 2.0, 1 / 2, 3.0, 1 / 3)
_CENTRE, _SIZE = 10.0, 5.0


def matches(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Four numbers and the classes for every prior."""
    if len(shapes) != 2:
        return False
    squeezed = [tuple(size for size in shape if size != 1) for shape in shapes]
    count = len(priors(frame))
    others = [shape for shape in squeezed if shape != (count, 4)]
    return len(others) == 1 and len(others[0]) == 2 and others[0][0] == count


@lru_cache(maxsize=4)
def priors(frame: Frame) -> Floats:
    """[n, 4]: centre x, y, width, height in parts of the frame."""
    steps = [_SMALLEST + (_LARGEST - _SMALLEST) * layer / (_LAYERS - 1) for layer in range(_LAYERS)] + [1.0]
    rows, columns = math.ceil(frame.height / 16), math.ceil(frame.width / 16)
    parts = []
    for layer in range(_LAYERS):
        boxes = _shapes(layer, steps)
        y, x = np.meshgrid((np.arange(rows) + 0.5) / rows, (np.arange(columns) + 0.5) / columns, indexing="ij")
        centres = np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), len(boxes), axis=0)
        parts.append(np.concatenate([centres, np.tile(boxes, (rows * columns, 1))], axis=1))
        rows, columns = math.ceil(rows / 2), math.ceil(columns / 2)
    return np.concatenate(parts).astype(np.float32)


def _shapes(layer: int, steps: Sequence[float]) -> Floats:
    """[k, 2]: widths and heights of the boxes of one cell."""
    if layer == 0:
        pairs = [(steps[0] / 2, 1.0), (steps[0], 2.0), (steps[0], 1 / 2)]
    else:
        pairs = [(steps[layer], ratio) for ratio in _RATIOS]
        pairs.append((math.sqrt(steps[layer] * steps[layer + 1]), 1.0))
    return np.array([(scale * math.sqrt(r), scale / math.sqrt(r)) for scale, r in pairs], np.float32)


def matches_split(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Both for each of the grids."""
    return _paired(shapes, frame) is not None


def classes_split(shapes: Sequence[tuple[int, ...]]) -> int:
    """How many classes there are besides the background."""
    first = [shape[1] for shape in shapes if shape[2:] == shapes[0][2:]]
    count = _boxes(0)
    return next((size for size in first if size != 4 * count), 4 * count) // count - 1


def decode(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """Objects; the number of a class counts from the one after background."""
    place = next(head for head in heads if head.shape[-1] == 4)
    score = next(head for head in heads if head is not place)
    stored = score.values.reshape(len(priors(frame)), -1)[:, 1:]
    is_logits = score.is_logits(stored, settings)
    part = _Part(place, score, place.values.reshape(-1, 4), stored, priors(frame))
    return select(part.objects(frame, settings, is_logits=is_logits), settings)


def decode_split(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """`decode` for twelve outputs, each with its own scale."""
    pairs = _paired([head.shape for head in heads], frame)
    assert pairs is not None  # `matches_split` has said so
    parts, start = [], 0
    for layer, (place_at, score_at) in enumerate(pairs):
        place, score, count = heads[place_at], heads[score_at], _boxes(layer)
        rows = count * place.shape[2] * place.shape[3]
        # Rows of cells, in each its boxes: the order of the priors.
        moved, scored = (
            head.values.reshape(count, -1, *head.shape[2:]).transpose(2, 3, 0, 1).reshape(rows, -1)
            for head in (place, score)
        )
        parts.append(_Part(place, score, moved, scored[:, 1:], priors(frame)[start : start + rows]))
        start += rows
    is_logits = any(part.score.is_logits(part.scores, settings) for part in parts)
    found = [part.objects(frame, settings, is_logits=is_logits) for part in parts]
    boxes, scores, classes = (np.concatenate(arrays) for arrays in zip(*((one.boxes, one.scores, one.classes)
                                                                        for one in found), strict=True))  # fmt: skip
    return select(Objects(boxes, scores, classes), settings)


@dataclass(frozen=True, slots=True)
class _Part:
    """Places and scores of some priors, as they are stored; the scores are without the background."""

    place: Head
    score: Head
    moves: Array
    scores: Array
    priors: Floats

    def objects(self, frame: Frame, settings: Settings, *, is_logits: bool) -> Objects:
        limit = self.score.score_limit(settings, is_logits=is_logits)
        if settings.every_class:
            rows, classes = np.nonzero(self.scores >= limit)
        else:
            rows = np.flatnonzero(self.scores.max(axis=1) >= limit)
            classes = self.scores[rows].argmax(axis=1)
        scores = self.score.real(self.scores[rows, classes])
        moves = self.place.real(self.moves[rows])[:, [1, 0, 3, 2]]
        prior, size = self.priors[rows], np.array((frame.width, frame.height), np.float32)
        boxes = boxes_from_centres(
            ((prior[:, :2] + moves[:, :2] / _CENTRE * prior[:, 2:]) * size).T,
            (prior[:, 2:] * np.exp(moves[:, 2:] / _SIZE) * size).T,
        )
        return Objects(boxes, sigmoid(scores) if is_logits else scores, classes)


def _boxes(layer: int) -> int:
    return 3 if layer == 0 else len(_RATIOS) + 1


def _paired(shapes: Sequence[tuple[int, ...]], frame: Frame) -> list[tuple[int, int]] | None:
    """Which outputs are place and score of each grid; None if these are no such outputs."""
    if len(shapes) != 2 * _LAYERS or any(len(shape) != 4 or shape[0] != 1 for shape in shapes):
        return None
    rows, columns = math.ceil(frame.height / 16), math.ceil(frame.width / 16)
    left, pairs, classes = list(range(len(shapes))), [], set()
    for layer in range(_LAYERS):
        both = [at for at in left if shapes[at][2:] == (rows, columns)][:2]
        count = _boxes(layer)
        if len(both) != 2 or any(shapes[at][1] % count for at in both):
            return None
        place, score = both if shapes[both[0]][1] == 4 * count else both[::-1]
        if shapes[place][1] != 4 * count:
            return None
        classes.add(shapes[score][1] // count)
        pairs.append((place, score))
        left = [at for at in left if at not in both]
        rows, columns = math.ceil(rows / 2), math.ceil(columns / 2)
    return pairs if len(classes) == 1 and min(classes) > 1 else None
