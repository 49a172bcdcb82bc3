"""MediaPipe's landmarks of one hand, person or face that fills the image, in pixels of the input.

    hand    points [1, 63]            21 x (x, y, depth);                  presence [1, 1]
    person  points [1, 195]           39 x (x, y, depth, visible, there);  presence [1, 1]; 6 points are helpers
    face    points [1, 1, 1, 1404]    468 x (x, y, depth);                 presence [1, 1, 1, 1], before the sigmoid

`visible` is before the sigmoid. Other outputs (depth in metres, masks, heat maps) are not used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from openrknn.vision.grids import sigmoid
from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.results import Objects


class _Kind(NamedTuple):
    numbers: int
    """Of one point."""
    points: int
    """That are shown."""
    side: int
    """Of the input."""
    logit: bool
    """Whether the presence needs the sigmoid."""


KINDS = {63: _Kind(3, 21, 224, False), 195: _Kind(5, 33, 256, False), 1404: _Kind(3, 468, 192, True)}
"""Size of the output with the points -> what it is."""
_VISIBLE = 3


def matches(size: int, shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """An output of this size, and one number."""
    sizes = [math.prod(shape) for shape in shapes]
    return size in sizes and 1 in sizes and frame == Frame(KINDS[size].side, KINDS[size].side)


def decode(size: int, heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """One object whose box holds its points; none where the presence is below the threshold."""
    kind = KINDS[size]
    presence = next(head for head in heads if head.values.size == 1)
    sure = presence.real(presence.values.reshape(-1))
    score = sigmoid(sure) if kind.logit else sure
    if not score[0] >= settings.threshold:
        return Objects.none()
    head = next(head for head in heads if head.values.size == size)
    points = head.real(head.values.reshape(-1, kind.numbers))[: kind.points]
    visible = sigmoid(points[:, _VISIBLE]) if kind.numbers > _VISIBLE else np.repeat(score, len(points))
    keypoints = np.concatenate([points[:, :2], visible[:, None]], axis=1).astype(np.float32)[None]
    box = np.concatenate([points[:, :2].min(axis=0), points[:, :2].max(axis=0)])
    return Objects(box[None].astype(np.float32), score.astype(np.float32), np.zeros(1, np.int64), keypoints=keypoints)
