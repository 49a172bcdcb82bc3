"""Classification: the classes with the highest scores.

    p_i = e^(x_i) / sum of e^(x_j)      or x_i itself where the model ends in a softmax of its own
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.vision.grids import softmax
from openrknn.vision.heads import Floats, Frame, Head, Settings
from openrknn.vision.results import Ranking

_SUM_TOLERANCE = 0.03
"""Thousand probabilities in steps of 1/255 add up to about one."""


def matches(shapes: Sequence[tuple[int, ...]], frame: Frame) -> bool:
    """One output with one real dimension."""
    return len(shapes) == 1 and sum(size > 1 for size in shapes[0]) == 1


def decode(heads: Sequence[Head], frame: Frame, settings: Settings) -> Ranking:
    """All classes up to `limit`, the best first; equal scores by number."""
    (head,) = heads
    scores = head.real(head.values.reshape(-1))
    probabilities = _probabilities(scores)
    order = np.argsort(-scores, kind="stable")[: settings.limit]
    return Ranking(order, probabilities[order], scores[order])


def _probabilities(scores: Floats) -> Floats:
    if scores.min() >= 0 and abs(float(scores.sum()) - 1) < _SUM_TOLERANCE:
        return scores
    return softmax(scores, axis=0)
