"""YOLOv8-pose and v11-pose: people with key points.

    rknn_model_zoo   [1, 64 + classes, h, w] per stride (`yolov8`), and [1, k, 3, cells]: x, y in pixels, visibility
    Ultralytics      [1, 4 + classes + 3 k, cells]: the box, the scores, then x, y, visibility of each point

cells are numbered through all strides, the finest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openrknn.vision.decoders import flat, yolov8
from openrknn.vision.grids import count_cells, sigmoid
from openrknn.vision.heads import Array, Floats, Frame, Head, Settings
from openrknn.vision.nms import select
from openrknn.vision.results import Objects

PERSON_POINTS = 17
"""The key points of COCO: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles, left before right."""
SKELETON = (
    (15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8), (7, 9), (8, 10),
    (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6),
)  # fmt: skip
"""Which key points of COCO a line connects."""
_PER_POINT = 3


def matches_split(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Boxes with scores per stride, and one output of points."""
    points = [shape for shape in shapes if _is_points(shape, frame)]
    rest = [shape for shape in shapes if not _is_points(shape, frame)]
    return len(points) == 1 and yolov8.matches_merged(rest, frame)


def _is_points(shape: Sequence[int], frame: Frame) -> bool:
    return len(shape) in (3, 4) and shape[-1] == count_cells(frame) and int(np.prod(shape[1:-1])) % _PER_POINT == 0


def decode_split(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """As rknn_model_zoo exports it."""
    points = next(head for head in heads if _is_points(head.shape, frame))
    rest = [head for head in heads if head is not points]
    picked = yolov8.pick(yolov8.merged_branches(rest), frame, settings)
    stored = points.values.reshape(-1, _PER_POINT, points.shape[-1])[:, :, picked.cells]
    keypoints = _keypoints(points, stored)
    return select(Objects(yolov8.boxes_of(picked), picked.scores, picked.classes, keypoints=keypoints), settings)


def _keypoints(head: Head, stored: Array) -> Floats:
    """[k, 3, n] -> [n, k, 3], with a visibility from 0 to 1."""
    points = head.real(stored).transpose(2, 0, 1).copy()
    visible = points[..., 2]
    slack = max(0.01, head.scale if head.is_quantized else 0.0)  # int8 steps of pixels are coarse
    if visible.size and (visible.min() < -slack or visible.max() > 1 + slack):
        points[..., 2] = sigmoid(visible)
    return points


def matches_flat(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """One class and the key points of COCO."""
    return flat.matches_scores(shapes, frame) and shapes[0][1] == 4 + 1 + _PER_POINT * PERSON_POINTS


def decode_flat(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """As Ultralytics exports it."""
    (head,) = heads
    stored, count = head.values[0], _PER_POINT * PERSON_POINTS
    cells, scores, classes = flat.pick_scores(head, stored[4:-count], settings)
    largest = head.real(stored[:4].max(axis=1))
    boxes = flat.frame_boxes(head.real(stored[:4, cells]), frame, largest)
    keypoints = _keypoints(head, stored[-count:, cells].reshape(PERSON_POINTS, _PER_POINT, -1))
    if float(largest.max()) <= 2.0:  # in parts of the frame, as the boxes
        keypoints[..., :2] *= np.array((frame.width, frame.height), np.float32)
    found = Objects(boxes, scores, classes, keypoints=keypoints, note=flat.coarse_note(head))
    chosen = select(found, settings)
    return replace(chosen, note=chosen.note or found.note)
