"""YOLOv3 and YOLOv4 as Darknet has them: anchors. One output [1, 3 * (5 + classes), h, w] per stride, as it is stored.

For the cell in column x and row y, and each of its anchors (w_a, h_a), with v = the output and s = its sigmoid:

    centre = (g s_xy - (g - 1) / 2 + (x, y)) * stride       size = e^(v_wh) * (w_a, h_a)
    score  = s_object * s_class

g is `scale_x_y` of the network's .cfg: 1 in YOLOv3. Tiny networks have two strides. Families of three strides look like
YOLOv5, and have to be asked for; so does YOLOv4-tiny, which looks like YOLOv3-tiny.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from openrknn.vision.decoders import yolov5
from openrknn.vision.grids import boxes_from_centres, cell_corners, is_grid, sigmoid, stride_of
from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.nms import select
from openrknn.vision.results import Objects

_BOX, _PER_CELL = 5, 3


class _Stride(NamedTuple):
    anchors: tuple[tuple[int, int], ...]
    grow: float = 1.0


_TINY_SMALL, _TINY_LARGE = ((10, 14), (23, 27), (37, 58)), ((81, 82), (135, 169), (344, 319))

# From the .cfg files that belong to the networks; pixels of the frame, by stride.
DARKNET: dict[str, dict[int, _Stride]] = {
    "yolov3": {stride: _Stride(anchors) for stride, anchors in yolov5.ANCHORS["yolov5"].items()},
    "yolov3-tiny": {16: _Stride(_TINY_SMALL), 32: _Stride(_TINY_LARGE)},
    "yolov4": {
        stride: _Stride(anchors, grow)
        for (stride, anchors), grow in zip(yolov5.ANCHORS["yolov7"].items(), (1.2, 1.1, 1.05), strict=True)
    },
    "yolov4-tiny": {16: _Stride((*_TINY_SMALL[1:], _TINY_LARGE[0]), 1.05), 32: _Stride(_TINY_LARGE, 1.05)},
}


def matches_tiny(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Strides of 16 and 32, each with three anchors per cell."""
    return (
        len(shapes) == 2
        and all(is_grid(shape, frame) for shape in shapes)
        and sorted(round(stride_of(shape, frame)[0]) for shape in shapes) == [16, 32]
        and shapes[0][1] == shapes[1][1]
        and shapes[0][1] % _PER_CELL == 0
        and shapes[0][1] // _PER_CELL > _BOX
    )


def decode(heads: Sequence[Head], frame: Frame, settings: Settings, *, family: str) -> Objects:
    """Objects, with the anchors of a family."""
    return select(Objects.joined(_pick(head, frame, settings, DARKNET[family]) for head in heads), settings)


decode_v3 = partial(decode, family="yolov3")
decode_v3_tiny = partial(decode, family="yolov3-tiny")
decode_v4 = partial(decode, family="yolov4")
decode_v4_tiny = partial(decode, family="yolov4-tiny")


def _pick(head: Head, frame: Frame, settings: Settings, strides: dict[int, _Stride]) -> Objects:
    _, channels, rows, columns = head.shape
    stored = head.values.reshape(_PER_CELL, channels // _PER_CELL, rows * columns)
    # The score is a product of two numbers up to one: where the first is too small, the second cannot help.
    anchor, cells = np.nonzero(stored[:, _BOX - 1] >= head.score_limit(settings, is_logits=True))
    chosen = stored[anchor, :, cells]  # [n, 5 + classes]
    paired, classes = yolov5.class_pairs(chosen[:, _BOX:], settings)
    anchor, cells = anchor[paired], cells[paired]
    values = head.real(np.concatenate([chosen[paired, :_BOX], chosen[paired, _BOX + classes][:, None]], axis=1)).T
    scores = sigmoid(values[_BOX - 1]) * sigmoid(values[_BOX])
    kept = np.flatnonzero(scores >= settings.threshold)
    anchor, cells, values = anchor[kept], cells[kept], values[:, kept]
    across, down = stride_of(head.shape, frame)
    anchors, grow = strides[round(across)]
    corners, stride = cell_corners(cells, columns), np.array([[across], [down]], np.float32)
    centres = sigmoid(values[:2]) * np.float32(grow) - np.float32((grow - 1) / 2) + corners
    sizes = np.exp(np.minimum(values[2:4], 20)) * np.array(anchors, np.float32)[anchor].T
    return Objects(boxes_from_centres(centres * stride, sizes), scores[kept], classes[kept])
