"""YOLOX: one box per cell. One output [1, 5 + classes, h, w] per stride.

For the cell in column x and row y, with v = the output:

    centre = (v_xy + (x, y)) * stride       size = e^(v_wh) * stride
    score  = v_object * v_class             both after the sigmoid, which is usually part of the model
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.vision.grids import boxes_from_centres, cell_corners, is_grid, sigmoid, stride_of
from openrknn.vision.heads import Array, Floats, Frame, Head, Settings
from openrknn.vision.nms import select
from openrknn.vision.results import Objects

_BOX = 5


def matches(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Several strides, each with one box, one object score and the classes."""
    return (
        len(shapes) > 1
        and all(is_grid(shape, frame) for shape in shapes)
        and len({shape[2:] for shape in shapes}) == len(shapes)
        and len({shape[1] for shape in shapes}) == 1
        and shapes[0][1] > _BOX
    )


def decode(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """Objects of all strides."""
    return select(Objects.joined(_pick(head, frame, settings) for head in heads), settings)


def _pick(head: Head, frame: Frame, settings: Settings) -> Objects:
    stored = head.values.reshape(head.shape[1], -1)
    cells, scores, classes = score_rows(head, stored, settings)
    across, down = stride_of(head.shape, frame)
    stride = np.array([[across], [down]], np.float32)
    boxes = boxes_of_cells(head.real(stored[:4, cells]), cell_corners(cells, head.shape[3]), stride)
    return Objects(boxes, scores, classes)


def score_rows(head: Head, stored: Array, settings: Settings) -> tuple[Array, Floats, Array]:
    """From [5 + classes, n]: the columns that pass, their scores and classes. First the object score alone."""
    is_logits = head.is_logits(stored[_BOX - 1 :], settings)
    cells = np.flatnonzero(stored[_BOX - 1] >= head.score_limit(settings, is_logits=is_logits))
    chosen = stored[:, cells]
    if settings.every_class:
        values = head.real(chosen[_BOX - 1 :])
        products = sigmoid(values) if is_logits else values
        products = products[0] * products[1:]
        classes, columns = np.nonzero(products >= settings.threshold)
        return cells[columns], products[classes, columns], classes
    classes = chosen[_BOX:].argmax(axis=0)
    factors = head.real(np.stack([chosen[_BOX - 1], np.take_along_axis(chosen[_BOX:], classes[None], axis=0)[0]]))
    if is_logits:
        factors = sigmoid(factors)
    scores = factors[0] * factors[1]
    kept = np.flatnonzero(scores >= settings.threshold)
    return cells[kept], scores[kept], classes[kept]


def boxes_of_cells(values: Floats, corners: Floats, stride: Floats) -> Floats:
    """[4, n] outputs for cells with these upper left corners -> [n, 4] boxes."""
    return boxes_from_centres((values[:2] + corners) * stride, np.exp(values[2:4]) * stride)
