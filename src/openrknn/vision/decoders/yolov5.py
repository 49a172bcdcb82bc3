"""YOLOv5 and YOLOv7: anchors. One output [1, anchors * (5 + classes), h, w] per stride.

For the cell in column x and row y, and each of its anchors (w_a, h_a), with s = the output (after the sigmoid, which
rknn_model_zoo exports with the model):

    centre = (2 s_xy - 0.5 + (x, y)) * stride       size = (2 s_wh)^2 * (w_a, h_a)
    score  = s_object * s_class

The two families differ in nothing but their anchors, which are not in the outputs: YOLOv7 has to be asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from openrknn.vision.grids import boxes_from_centres, cell_corners, is_grid, sigmoid, stride_of
from openrknn.vision.heads import Array, Frame, Head, Settings
from openrknn.vision.nms import select
from openrknn.vision.results import Objects

Anchors = dict[int, tuple[tuple[int, int], ...]]

# From the families' own configuration files; width and height in pixels of the frame, by stride.
ANCHORS: dict[str, Anchors] = {
    "yolov5": {
        8: ((10, 13), (16, 30), (33, 23)),
        16: ((30, 61), (62, 45), (59, 119)),
        32: ((116, 90), (156, 198), (373, 326)),
    },
    "yolov5-p6": {
        8: ((19, 27), (44, 40), (38, 94)),
        16: ((96, 68), (86, 152), (180, 137)),
        32: ((140, 301), (303, 264), (238, 542)),
        64: ((436, 615), (739, 380), (925, 792)),
    },
    "yolov7": {
        8: ((12, 16), (19, 36), (40, 28)),
        16: ((36, 75), (76, 55), (72, 146)),
        32: ((142, 110), (192, 243), (459, 401)),
    },
}
_PER_CELL = 3
_BOX = 5
"""Four numbers of the box, and one that says whether there is an object."""


def matches(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Three or four strides, each with three anchors per cell."""
    return (
        len(shapes) in (3, 4)
        and all(is_grid(shape, frame) for shape in shapes)
        and len({shape[2:] for shape in shapes}) == len(shapes)
        and len({shape[1] for shape in shapes}) == 1
        and shapes[0][1] % _PER_CELL == 0
        and shapes[0][1] // _PER_CELL > _BOX
    )


def decode(heads: Sequence[Head], frame: Frame, settings: Settings, *, family: str = "yolov5") -> Objects:
    """Objects, with the anchors of a family."""
    if family == "yolov5" and len(heads) == 4:
        family = "yolov5-p6"
    candidates, _ = pick_anchors(heads, frame, settings, ANCHORS[family])
    return select(candidates, settings)


decode_v7 = partial(decode, family="yolov7")


def pick_anchors(
    heads: Sequence[Head], frame: Frame, settings: Settings, anchors: Anchors
) -> tuple[Objects, list[tuple[Array, Array]]]:
    """Candidates, and for each stride in the order of the heads which anchors and cells they are."""
    parts = [_pick(head, frame, settings, anchors) for head in heads]
    return Objects.joined(part for part, _ in parts), [places for _, places in parts]


def class_pairs(scores: Array, settings: Settings) -> tuple[Array, Array]:
    """From [n, classes]: rows with the classes that are looked at, the best one of each row or every one."""
    if settings.every_class:
        count, classes = scores.shape
        return np.repeat(np.arange(count), classes), np.tile(np.arange(classes), count)
    return np.arange(len(scores)), scores.argmax(axis=1)


def _pick(head: Head, frame: Frame, settings: Settings, anchors: Anchors) -> tuple[Objects, tuple[Array, Array]]:
    _, channels, rows, columns = head.shape
    stored = head.values.reshape(_PER_CELL, channels // _PER_CELL, rows * columns)
    is_logits = head.is_logits(stored[:, _BOX - 1 :], settings)
    # The score is a product of two numbers up to one: where the first is too small, the second cannot help.
    passed = stored[:, _BOX - 1] >= head.score_limit(settings, is_logits=is_logits)
    anchor, cells = np.nonzero(passed)
    chosen = stored[anchor, :, cells]  # [n, 5 + classes]
    paired, classes = class_pairs(chosen[:, _BOX:], settings)
    anchor, cells = anchor[paired], cells[paired]
    parts = head.real(np.concatenate([chosen[paired, :_BOX], chosen[paired, _BOX + classes][:, None]], axis=1)).T
    values = sigmoid(parts) if is_logits else parts
    scores = values[_BOX - 1] * values[_BOX]
    kept = np.flatnonzero(scores >= settings.threshold)
    anchor, cells, values = anchor[kept], cells[kept], values[:, kept]
    across, down = stride_of(head.shape, frame)
    sizes = np.array(anchors[round(across)], np.float32)[anchor].T
    corners, stride = cell_corners(cells, columns), np.array([[across], [down]], np.float32)
    boxes = boxes_from_centres(
        (2 * values[:2] - np.float32(0.5) + corners) * stride, (2 * values[2:4]) ** 2 * sizes
    )
    return Objects(boxes, scores[kept], classes[kept]), (anchor, cells)
