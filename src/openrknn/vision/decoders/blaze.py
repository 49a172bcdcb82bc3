"""MediaPipe's detectors (BlazeFace, palms, people): anchors of one size, boxes and keypoints in pixels.

    box  [1, n, 4 + 2k]: centre x, y, width, height, k points x, y       score  [1, n, 1], before the sigmoid

Anchors are the centres of cells: two for each layer of the network, and layers of one stride share their cells.

    centre = anchor + v_xy          size = v_wh          point_i = anchor + v_i
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from openrknn.vision.grids import boxes_from_centres, sigmoid
from openrknn.vision.heads import Floats, Frame, Head, Settings
from openrknn.vision.nms import select
from openrknn.vision.results import Objects

_LAYERS = {128: (8, 16, 16, 16), 192: (8, 16, 16, 16), 224: (8, 16, 32, 32, 32)}
"""Side of the input -> strides of the layers."""
_PER_LAYER = 2
POINTS = {128: 6, 192: 7, 224: 4}
"""Side of the input -> keypoints of each object."""


def matches(side: int, shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """A box with its points, and a score, for every anchor of an input of this size."""
    count, points = len(anchors(side)), POINTS[side]
    wanted = [(1, count, 1), (1, count, 4 + 2 * points)]
    return frame == Frame(side, side) and sorted(tuple(shape) for shape in shapes) == wanted


@lru_cache(maxsize=4)
def anchors(side: int) -> Floats:
    """[n, 2]: centres in pixels; strides, then rows, columns, and the anchors of a cell."""
    parts = []
    for stride in sorted(set(_LAYERS[side])):
        each = _PER_LAYER * _LAYERS[side].count(stride)
        y, x, _ = np.meshgrid(*2 * [(np.arange(side // stride) + 0.5) * stride], np.arange(each), indexing="ij")
        parts.append(np.stack([x, y], axis=-1).reshape(-1, 2))
    return np.concatenate(parts).astype(np.float32)


def decode(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """Objects with keypoints; class 0 is the only one."""
    score, place = sorted(heads, key=lambda head: head.shape[-1])
    stored = score.values.reshape(-1)
    rows = np.flatnonzero(stored >= score.score_limit(settings, is_logits=True))
    values = place.real(place.values.reshape(len(stored), -1)[rows])
    centres = anchors(frame.width)[rows]
    boxes = boxes_from_centres((centres + values[:, :2]).T, values[:, 2:4].T)
    points = centres[:, None] + values[:, 4:].reshape(len(rows), POINTS[frame.width], 2)
    keypoints = np.concatenate([points, np.ones((*points.shape[:2], 1))], axis=-1).astype(np.float32)
    scores = sigmoid(score.real(stored[rows]))
    return select(Objects(boxes, scores, np.zeros(len(rows), np.int64), keypoints=keypoints), settings)
