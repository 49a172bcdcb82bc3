"""Finished objects: one output [1, n, 6], each row left, top, right, bottom, score, class.

YOLOv10 (and others that need no suppression) as Ultralytics exports them. Rows without an object have a score of zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.results import Objects

_ROW = 6
_MOST_ROWS = 1000


def matches(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """Rows of six."""
    return len(shapes) == 1 and len(shapes[0]) == 3 and shapes[0][2] == _ROW and 1 < shapes[0][1] <= _MOST_ROWS


def decode(heads: Sequence[Head], frame: Frame, settings: Settings) -> Objects:
    """The rows that pass, the best first."""
    (head,) = heads
    stored = head.values.reshape(-1, _ROW)
    passed = np.flatnonzero(stored[:, 4] >= head.limit(settings.threshold))
    rows = head.real(stored[passed])
    order = np.argsort(-rows[:, 4], kind="stable")[: settings.limit]
    rows = rows[order]
    return Objects(rows[:, :4], rows[:, 4], np.rint(rows[:, 5]).astype(np.int64))
