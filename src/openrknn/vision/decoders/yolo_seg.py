"""YOLOv5-seg, v8-seg, v11-seg: objects with masks.

Besides the outputs of the detector (`yolov8`, `yolov5`, `flat`) there are k coefficients per candidate and one output
of k prototypes [1, k, h, w] (k = 32, h and w a quarter of the frame). The mask of an object is where

    sum over k of coefficient_k * prototype_k > 0       (the sigmoid of it above one half)

inside its box. The sum is enlarged to the frame first, between pixels, so that the edges are smooth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openrknn.vision.decoders import flat, yolov5, yolov8
from openrknn.vision.grids import count_cells, is_grid
from openrknn.vision.heads import Array, Floats, Frame, Head, Settings
from openrknn.vision.nms import keep_best
from openrknn.vision.results import Objects

_DIVISOR = 4
"""Prototypes have a quarter of the frame's resolution."""


def _split_off(shapes: Sequence[tuple[int, ...]], frame: Frame) -> tuple[list[tuple[int, ...]], int] | None:
    """The shapes without the prototypes, and how many prototypes there are."""
    found = [s for s in shapes if len(s) == 4 and s[2:] == (frame.height // _DIVISOR, frame.width // _DIVISOR)]
    if len(found) != 1 or len(shapes) < 2:
        return None
    return [shape for shape in shapes if shape is not found[0]], found[0][1]


def matches_split(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """box, score, (total,) mask per stride, and the prototypes."""
    parts = _split_off(shapes, frame)
    if parts is None or not all(is_grid(shape, frame) for shape in parts[0]):
        return False
    groups: dict[tuple[int, ...], list[int]] = {}
    for shape in parts[0]:
        groups.setdefault(shape[2:], []).append(shape[1])
    return len(groups) > 1 and all(len(group) in (3, 4) and group[-1] == parts[1] for group in groups.values())


def decode_split(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """YOLOv8-seg and v11-seg as rknn_model_zoo exports them."""
    prototypes, rest = _prototypes(heads, frame)
    picked = yolov8.pick(yolov8.branches_of(rest), frame, settings)
    found = Objects(yolov8.boxes_of(picked), picked.scores, picked.classes)
    return _masked(found, picked.masks, prototypes, frame, settings)


def matches_anchors(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Boxes [1, 3 * (5 + classes), h, w] and coefficients [1, 3 * k, h, w] per stride, and the prototypes."""
    parts = _split_off(shapes, frame)
    if parts is None or not all(is_grid(shape, frame) for shape in parts[0]):
        return False
    coefficients = [shape for shape in parts[0] if shape[1] == 3 * parts[1]]
    boxes = [shape for shape in parts[0] if shape[1] != 3 * parts[1]]
    return yolov5.matches(boxes, frame) and {s[2:] for s in boxes} == {s[2:] for s in coefficients}


def decode_anchors(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """YOLOv5-seg as rknn_model_zoo exports it."""
    prototypes, rest = _prototypes(heads, frame)
    count = prototypes.shape[1]
    boxes = [head for head in rest if head.shape[1] != 3 * count]
    by_grid = {head.shape[2:]: head for head in rest if head.shape[1] == 3 * count}
    found, places = yolov5.pick_anchors(boxes, frame, settings, yolov5.ANCHORS["yolov5"])
    coefficients = []
    for head, (anchors, cells) in zip((by_grid[box.shape[2:]] for box in boxes), places, strict=True):
        stored = head.values.reshape(3, count, -1)
        coefficients.append(head.real(stored[anchors, :, cells]))
    return _masked(found, np.concatenate(coefficients), prototypes, frame, settings)


def matches_flat(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """[1, 4 + classes + k, cells] and the prototypes."""
    parts = _split_off(shapes, frame)
    if parts is None or len(parts[0]) != 1:
        return False
    (shape,), count = parts
    return len(shape) == 3 and shape[2] == count_cells(frame) and shape[1] > 4 + count


def decode_flat(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """YOLOv8-seg as Ultralytics exports it."""
    prototypes, (head,) = _prototypes(heads, frame)
    count, stored = prototypes.shape[1], head.values[0]
    cells, scores, classes = flat.pick_scores(head, stored[4:-count], settings)
    boxes = flat.frame_boxes(head.real(stored[:4, cells]), frame, head.real(stored[:4].max(axis=1)))
    found = replace(Objects(boxes, scores, classes), note=flat.coarse_note(head))
    return _masked(found, head.real(stored[-count:, cells]).T, prototypes, frame, settings)


def _prototypes(heads: Sequence[Head], frame: Frame) -> tuple[Head, list[Head]]:
    size = (frame.height // _DIVISOR, frame.width // _DIVISOR)
    found = next(head for head in heads if len(head.shape) == 4 and head.shape[2:] == size)
    return found, [head for head in heads if head is not found]


def _masked(found: Objects, coefficients: Floats, prototypes: Head, frame: Frame, settings: Settings) -> Objects:
    rows = keep_best(found.boxes, found.scores, found.classes, settings.overlap, settings.limit)
    kept = found.take(rows)
    return replace(kept, masks=masks(kept.boxes, coefficients[rows], prototypes, frame))


def masks(boxes: Floats, coefficients: Floats, prototypes: Head, frame: Frame) -> Array:
    """[n, height, width] of booleans over the frame."""
    _, count, rows, columns = prototypes.shape
    result = np.zeros((len(boxes), frame.height, frame.width), np.bool_)
    if not len(boxes):
        return result
    sums = coefficients @ prototypes.real(prototypes.values.reshape(count, -1))
    down, across = _enlarge(rows, frame.height), _enlarge(columns, frame.width)
    for row, box in enumerate(boxes):
        left, top = max(int(box[0]), 0), max(int(box[1]), 0)
        right, bottom = min(int(np.ceil(box[2])), frame.width), min(int(np.ceil(box[3])), frame.height)
        if right > left and bottom > top:
            part = down[top:bottom] @ sums[row].reshape(rows, columns) @ across[left:right].T
            result[row, top:bottom, left:right] = part > 0
    return result


def _enlarge(size: int, target: int) -> Floats:
    """[target, size]: weights of linear interpolation between pixel centres."""
    places = np.clip((np.arange(target) + 0.5) * size / target - 0.5, 0, size - 1)
    low = np.minimum(places.astype(np.int64), max(size - 2, 0))
    weights = np.zeros((target, size), np.float32)
    rows = np.arange(target)
    weights[rows, low] = 1 - (places - low)
    weights[rows, np.minimum(low + 1, size - 1)] += places - low
    return weights
