"""RetinaFace: faces with five landmarks, from prior boxes.

    place   [1, n, 4]       face  [1, n, 2] (background, face)      landmarks  [1, n, 10]

Priors: at strides 8, 16, 32 each cell has two squares, of 16 and 32, 64 and 128, 256 and 512 pixels. With the prior's
centre c and size p, and the variances 0.1 and 0.2:

    centre = c + 0.1 * v_xy * p     size = p * e^(0.2 * v_wh)       landmark_i = c + 0.1 * v_i * p
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from openrknn.vision.grids import boxes_from_centres, softmax
from openrknn.vision.heads import Floats, Frame, Head, Settings
from openrknn.vision.nms import select
from openrknn.vision.results import Objects

_SIZES = {8: (16, 32), 16: (64, 128), 32: (256, 512)}
_VARIANCES = (0.1, 0.2)
_PLACE, _FACE, _LANDMARKS = 4, 2, 10


def matches(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Three outputs of 4, 2 and 10 numbers for every prior."""
    count = sum(
        len(sizes) * math.ceil(frame.width / stride) * math.ceil(frame.height / stride)
        for stride, sizes in _SIZES.items()
    )
    return sorted(_squeezed(shape) for shape in shapes) == sorted((count, n) for n in (_PLACE, _FACE, _LANDMARKS))


def _squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


@lru_cache(maxsize=4)
def priors(frame: Frame) -> Floats:
    """[n, 4]: centre x, y and size of every prior, in pixels; strides, then rows, columns, sizes."""
    parts = []
    for stride, sizes in _SIZES.items():
        rows, columns = math.ceil(frame.height / stride), math.ceil(frame.width / stride)
        y, x, size = np.meshgrid(np.arange(rows) + 0.5, np.arange(columns) + 0.5, np.array(sizes), indexing="ij")
        parts.append(np.stack([x * stride, y * stride, size, size], axis=-1).reshape(-1, 4))
    return np.concatenate(parts).astype(np.float32)


def decode(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """Faces; class 0 is the only one."""
    by_size = {_squeezed(head.shape)[-1]: head for head in heads}
    place, face, landmarks = by_size[_PLACE], by_size[_FACE], by_size[_LANDMARKS]
    rows, scores = _faces(face, settings)
    prior = priors(frame)[rows]
    centre, size = prior[:, :2], prior[:, 2:]
    moves = place.real(place.values.reshape(-1, _PLACE)[rows])
    boxes = boxes_from_centres(
        (centre + _VARIANCES[0] * moves[:, :2] * size).T, (size * np.exp(_VARIANCES[1] * moves[:, 2:])).T
    )
    points = landmarks.real(landmarks.values.reshape(-1, _LANDMARKS)[rows]).reshape(-1, _LANDMARKS // 2, 2)
    points = centre[:, None] + _VARIANCES[0] * points * size[:, None]
    keypoints = np.concatenate([points, np.ones((*points.shape[:2], 1))], axis=-1).astype(np.float32)
    return select(Objects(boxes, scores, np.zeros(len(rows), np.int64), keypoints=keypoints), settings)


def _faces(face: Head, settings: Settings) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Floats]:
    """The priors that hold a face, and how sure that is. The softmax is usually part of the model."""
    stored = face.values.reshape(-1, _FACE)
    if face.is_logits(stored, settings):
        probability = softmax(face.real(stored), axis=1)[:, 1]
        rows = np.flatnonzero(probability >= settings.threshold)
        return rows, probability[rows]
    rows = np.flatnonzero(stored[:, 1] >= face.limit(settings.threshold))
    return rows, face.real(stored[rows, 1])
