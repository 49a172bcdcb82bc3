"""Segmentation: one class for every pixel. PP-Seg, DeepLab and others with one output [1, classes, h, w].

    class = argmax over the channels

The largest stored number stands for the largest value, so nothing has to become a float. An output of whole numbers
[1, h, w] or [1, 1, h, w] holds the classes themselves.

A mask is one channel of probabilities, [1, 1, h, w] or [1, h, w, 1]: foreground where it reaches the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.results import Areas

_COARSEST = 16
"""Fewer cells than frame / 16 are not a picture any more."""


def matches(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """One output with rows and columns like the frame."""
    if len(shapes) != 1 or len(shapes[0]) not in (3, 4) or shapes[0][0] != 1:
        return False
    shape = shapes[0]
    if len(shape) == 4 and shape[1] < 2:
        return False  # one channel of probabilities is not told from one of classes; see `text_boxes`
    rows, columns = shape[-2:]
    fits = rows * frame.width == columns * frame.height or (rows, columns) == (frame.height, frame.width)
    return fits and frame.height // _COARSEST <= rows and frame.height % rows == 0


def decode(heads: Sequence[Head], frame: Frame, settings: Settings) -> Areas:
    """The map of classes, in the resolution of the output."""
    (head,) = heads
    values = head.values[0]
    if values.ndim == 3 and len(values) > 1:
        return Areas(values.argmax(axis=0).astype(np.int64))
    return Areas(np.rint(head.real(values.reshape(values.shape[-2:]))).astype(np.int64))


def matches_mask(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """One number for every pixel."""
    return len(shapes) == 1 and shapes[0] in {(1, 1, frame.height, frame.width), (1, frame.height, frame.width, 1)}


def decode_mask(heads: Sequence[Head], frame: Frame, settings: Settings) -> Areas:
    """1 where the foreground is, 0 elsewhere."""
    (head,) = heads
    return Areas((head.values.reshape(frame.height, frame.width) >= head.limit(settings.threshold)).astype(np.int64))
