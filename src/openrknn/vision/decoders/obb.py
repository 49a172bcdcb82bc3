"""YOLOv8-obb and v11-obb: boxes turned by an angle, for pictures from above.

    rknn_model_zoo   [1, 64 + classes, h, w] per stride (`yolov8`), and [1, 1, cells]: the angle after the sigmoid, s
    Ultralytics      [1, 4 + classes + 1, cells]: centre, size, the scores, the angle a in radians

    a = (s - 1/4) pi        w = d_left + d_right        h = d_top + d_bottom
    (u, v) = ((d_right - d_left) / 2, (d_bottom - d_top) / 2)
    centre = (x + 0.5 + u cos a - v sin a, y + 0.5 + u sin a + v cos a) * stride

Suppression takes the overlap of the turned boxes: their polygons cut with each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.vision.decoders import flat, yolov8
from openrknn.vision.grids import count_cells
from openrknn.vision.heads import Array, Floats, Frame, Head, Settings
from openrknn.vision.polygons import convex_overlap
from openrknn.vision.results import Objects


def matches_split(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Boxes with scores per stride, and one angle per cell."""
    angles = [shape for shape in shapes if _is_angles(shape, frame)]
    rest = [shape for shape in shapes if not _is_angles(shape, frame)]
    return len(angles) == 1 and yolov8.matches_merged(rest, frame)


def _is_angles(shape: Sequence[int], frame: Frame) -> bool:
    return shape[-1] == count_cells(frame) and int(np.prod(shape)) == shape[-1]


def decode_split(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """As rknn_model_zoo exports it."""
    angle = next(head for head in heads if _is_angles(head.shape, frame))
    picked = yolov8.pick(yolov8.merged_branches([head for head in heads if head is not angle]), frame, settings)
    turns = (angle.real(angle.values.reshape(-1)[picked.cells]) - np.float32(0.25)) * np.float32(np.pi)
    low, high = picked.distances[:2], picked.distances[2:]
    across, down = (high - low) / 2
    cosine, sine = np.cos(turns), np.sin(turns)
    moves = np.stack([across * cosine - down * sine, across * sine + down * cosine])
    centres = (picked.centres + moves) * picked.strides
    corners = corners_of(centres, (low + high) * picked.strides, turns)
    return _select(corners, picked.scores, picked.classes, settings)


def matches_flat(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """One more row than a detector: nothing tells them apart."""
    return flat.matches_scores(shapes, frame) and shapes[0][1] > 5


def decode_flat(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """As Ultralytics exports it."""
    (head,) = heads
    stored = head.values[0]
    cells, scores, classes = flat.pick_scores(head, stored[4:-1], settings)
    boxes = head.real(stored[:4, cells])
    corners = corners_of(boxes[:2], boxes[2:], head.real(stored[-1, cells]))
    return _select(corners, scores, classes, settings)


def corners_of(centres: Array, sizes: Array, turns: Array) -> Floats:
    """[2, n], [2, n], [n] -> [n, 4, 2], around the box."""
    cosine, sine = np.cos(turns), np.sin(turns)
    along = np.stack([cosine, sine]) * sizes[0] / 2
    across = np.stack([-sine, cosine]) * sizes[1] / 2
    points = [centres - along - across, centres + along - across, centres + along + across, centres - along + across]
    return np.stack(points).transpose(2, 0, 1).astype(np.float32)


def _select(corners: Floats, scores: Floats, classes: Array, settings: Settings) -> Objects:
    """Suppression by the polygons; upright boxes first say which pairs can meet at all."""
    boxes = np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)
    kept: list[int] = []
    for row in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == settings.limit:
            break
        rivals = [other for other in kept if classes[other] == classes[row] and _meet(boxes[other], boxes[row])]
        if all(convex_overlap(corners[other], corners[row]) <= settings.overlap for other in rivals):
            kept.append(row)
    return Objects(boxes, scores, classes, corners=corners).take(np.array(kept, np.int64))


def _meet(first: Array, second: Array) -> bool:
    return bool((first[:2] < second[2:]).all() and (second[:2] < first[2:]).all())
