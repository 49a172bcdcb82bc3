"""All cells in one output, as Ultralytics, YOLOX and others export to ONNX.

    [1, 4 + classes, n]     YOLOv8, v11 ...: centre x, y, width, height in pixels, then the scores
    [1, n, 5 + classes]     YOLOv5, v7: the same with an object score; score = object * class
    [1, n, 5 + classes]     YOLOX: as above, or the raw numbers of its cells (formula in `yolox`)

n is the number of cells, 8400 for 640x640, or three times that with anchors. Boxes may be in parts of the frame (0 to
1) instead of pixels. In int8 such an output is a mistake of the conversion: coordinates up to 640 and scores up to 1
share one scale of about 2.5, and every score becomes 0 or 2.5. A note reports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openrknn.vision.decoders.yolox import boxes_of_cells, score_rows
from openrknn.vision.grids import STRIDES, boxes_from_centres, cell_corners, count_cells, sigmoid
from openrknn.vision.heads import Array, Floats, Frame, Head, Settings
from openrknn.vision.nms import select
from openrknn.vision.results import Objects

_PARTS_LIMIT = 2.0
"""Coordinates that stay below are parts of the frame, not pixels."""
_RAW_LIMIT = 32.0
"""Numbers of cells, before the formula, stay below; pixels do not."""
_COARSEST = 0.1
"""A step of int8 above which scores are lost."""


def matches_scores(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """[1, 4 + classes, cells]"""
    return len(shapes) == 1 and _is_rank_three(shapes[0]) and shapes[0][1] > 4 and shapes[0][2] == count_cells(frame)


def matches_objects(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """[1, 3 * cells, 5 + classes]"""
    cells = 3 * count_cells(frame)
    return len(shapes) == 1 and _is_rank_three(shapes[0]) and shapes[0][1] == cells and shapes[0][2] > 5


def matches_yolox(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """[1, cells, 5 + classes]"""
    return len(shapes) == 1 and _is_rank_three(shapes[0]) and shapes[0][1] == count_cells(frame) and shapes[0][2] > 5


def _is_rank_three(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[0] == 1


def decode_scores(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """YOLOv8 and relatives."""
    (head,) = heads
    stored = head.values[0]
    cells, scores, classes = pick_scores(head, stored[4:], settings)
    boxes = frame_boxes(head.real(stored[:4, cells]), frame, head.real(stored[:4].max(axis=1)))
    return _noted(head, select(Objects(boxes, scores, classes), settings))


def pick_scores(head: Head, stored: Array, settings: Settings) -> tuple[Array, Floats, Array]:
    """From [classes, n]: the columns that pass, their scores and classes."""
    is_logits = head.is_logits(stored, settings)
    limit = head.score_limit(settings, is_logits=is_logits)
    if settings.every_class:
        classes, cells = np.nonzero(stored >= limit)
        scores = head.real(stored[classes, cells])
        return cells, sigmoid(scores) if is_logits else scores, classes
    best = stored.max(axis=0)
    cells = np.flatnonzero(best >= limit)
    scores = head.real(best[cells])
    return cells, sigmoid(scores) if is_logits else scores, stored[:, cells].argmax(axis=0)


def frame_boxes(values: Floats, frame: Frame, largest: Floats) -> Floats:
    """[4, n] centres and sizes -> [n, 4] in pixels; `largest` of all cells tells parts from pixels."""
    size = np.array([[frame.width], [frame.height]], np.float32)
    scale = size if float(largest.max()) <= _PARTS_LIMIT else np.float32(1)
    return boxes_from_centres(values[:2] * scale, values[2:4] * scale)


def decode_objects(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """YOLOv5 and v7: the anchors are applied already."""
    (head,) = heads
    stored = head.values[0].T
    cells, scores, classes = score_rows(head, stored, settings)
    boxes = frame_boxes(head.real(stored[:4, cells]), frame, head.real(stored[:4].max(axis=1)))
    return _noted(head, select(Objects(boxes, scores, classes), settings))


def decode_yolox(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """YOLOX, with its formula applied or not: pixels reach far beyond what the raw numbers can be."""
    (head,) = heads
    stored = head.values[0].T
    cells, scores, classes = score_rows(head, stored, settings)
    values = head.real(stored[:4, cells])
    if float(head.real(stored[:2].max(axis=1)).max()) > _RAW_LIMIT:
        boxes = frame_boxes(values, frame, head.real(stored[:4].max(axis=1)))
    else:
        boxes = boxes_of_cells(values, *_cells_of_all_strides(cells, frame))
    return _noted(head, select(Objects(boxes, scores, classes), settings))


def _cells_of_all_strides(cells: Array, frame: Frame) -> tuple[Floats, Floats]:
    """Numbers through all strides -> [2, n] upper left corners in cells, and [2, n] strides."""
    corners, strides = np.zeros((2, len(cells)), np.float32), np.zeros((2, len(cells)), np.float32)
    first = 0
    for stride in STRIDES:
        columns, rows = frame.width // stride, frame.height // stride
        here = np.flatnonzero((cells >= first) & (cells < first + columns * rows))
        corners[:, here] = cell_corners(cells[here] - first, columns)
        strides[:, here] = stride
        first += columns * rows
    return corners, strides


def coarse_note(head: Head) -> str:
    """What is wrong with scores that share their scale with coordinates; empty where nothing is."""
    if not head.is_quantized or head.scale <= _COARSEST:
        return ""
    return (
        f"the output {head.name!r} holds boxes and scores under one int8 scale of {head.scale:.3g}: a score can only "
        f"be 0, {head.scale:.3g} and so on. Convert the model with separate outputs for boxes and scores, or with fp16"
    )


def _noted(head: Head, objects: Objects) -> Objects:
    note = coarse_note(head)
    return replace(objects, note=note) if note else objects
