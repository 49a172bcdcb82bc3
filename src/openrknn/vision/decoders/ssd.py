"""SSD with a MobileNet or Inception body, as TensorFlow's detection API makes it.

    place  [1, n, 4] (or [1, n, 1, 4]): y, x, height, width      score  [1, n, classes], class 0 is background

Priors: grids of frame / 16, / 32 ... down to one cell. Layer k of the six has scale s_k, evenly from 0.2 to 0.95 of
the frame, and per cell a box of each ratio r with width s sqrt(r), height s / sqrt(r): in the first layer (0.1, 1),
(0.2, 2), (0.2, 1/2), in the others 1, 2, 1/2, 3, 1/3 and one more square of scale sqrt(s_k s_k+1). For 300x300 these
are 1917.

    centre = c + v_xy / 10 * p      size = p * e^(v_wh / 5)         c, p: centre and size of the prior
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from openrknn.vision.grids import boxes_from_centres, sigmoid
from openrknn.vision.heads import Floats, Frame, Head, Settings
from openrknn.vision.nms import select
from openrknn.vision.results import Objects

__all__ = ["decode", "matches", "priors"]

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


def decode(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """Objects; the number of a class counts from the one after background."""
    place = next(head for head in heads if head.shape[-1] == 4)
    score = next(head for head in heads if head is not place)
    stored = score.values.reshape(len(priors(frame)), -1)[:, 1:]
    is_logits = score.is_logits(stored, settings)
    best = stored.max(axis=1)
    rows = np.flatnonzero(best >= score.score_limit(settings, is_logits=is_logits))
    scores = score.real(best[rows])
    moves = place.real(place.values.reshape(-1, 4)[rows])[:, [1, 0, 3, 2]]
    prior, size = priors(frame)[rows], np.array((frame.width, frame.height), np.float32)
    boxes = boxes_from_centres(
        ((prior[:, :2] + moves[:, :2] / _CENTRE * prior[:, 2:]) * size).T,
        (prior[:, 2:] * np.exp(moves[:, 2:] / _SIZE) * size).T,
    )
    found = Objects(boxes, sigmoid(scores) if is_logits else scores, stored[rows].argmax(axis=1))
    return select(found, settings)
