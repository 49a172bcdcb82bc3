"""What an output loses against float, as a share of 1: 0.01 is the 1 % of `--accuracy-drop 1%`.

Without labels the float model says what is right, and how sure it is of it. A class or a score that it is hardly sure
of costs hardly anything when it changes, as it would with labels:

    classes   the expected accuracy: float's probability of the class that the model names, against that of float's own
    scores    the expected average precision: float's scores in the order of the model's; and decisions at 0.5 that
              change, weighted by how sure float was of them
    boxes     1 - IoU with float's boxes, weighted by their scores
    numbers   the mean error as a share of the range of the output (landmarks: NME), weighted by scores if it has any
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openrknn.compiler.ir import Array

_FAINT = 0.05
"""Scores below that are nothing anybody would look at."""
_LIMIT = 0.5
_RANGE = (1.0, 99.0)
"""Percentiles that bound the range of an output."""
_TINY = 1e-12


def class_loss(found: Array, wanted: Array) -> float:
    """Of probabilities [decisions, classes]."""
    each = np.arange(len(wanted))
    best = wanted[each, wanted.argmax(1)].sum()
    return _share(best - wanted[each, found.argmax(1)].sum(), best)


def score_loss(found: Array, wanted: Array) -> float:
    """Of scores between 0 and 1, in any shape."""
    ours, right = found.reshape(-1), wanted.reshape(-1)
    seen = np.maximum(ours, right) >= _FAINT
    if not (right >= _FAINT).any():  # nothing to be found: what is found wrongly
        return float(np.abs(ours - right).max(initial=0.0))
    ours, right = ours[seen], right[seen]
    precision = _share(_precision(right, right) - _precision(ours, right), _precision(right, right))
    return max(precision, _changed_decisions(ours, right), 0.0)


def _precision(order: Array, right: Array) -> float:
    """The average precision of things that are there with probability `right`, by decreasing `order`."""
    sure = right[np.argsort(-order, kind="stable")]
    total = float(sure.sum())
    return float((np.cumsum(sure) / np.arange(1, len(sure) + 1)) @ sure) / max(total, _TINY)


def _changed_decisions(ours: Array, right: Array) -> float:
    """What float was sure of is lost or invented; beside what it finds, at least one."""
    chosen = right >= _LIMIT
    sure = np.abs(2 * right - 1)
    return float(sure[(ours >= _LIMIT) != chosen].sum()) / max(float(right[chosen].sum()), 1.0)


def box_loss(found: Array, wanted: Array, weights: Array) -> float:
    """Of boxes [4, n] (centre and size), each with a weight."""
    strong = weights >= _FAINT
    if not strong.any():
        return 0.0
    (left, right), shares = (_corners(values[:, strong]) for values in (found, wanted)), weights[strong]
    low, high = np.maximum(left[:2], right[:2]), np.minimum(left[2:], right[2:])
    both = np.prod(np.maximum(high - low, 0.0), axis=0)
    either = _area(left) + _area(right) - both
    return float(1 - (both / np.maximum(either, _TINY)) @ shares / shares.sum())


def _corners(boxes: Array) -> Array:
    centre, size = boxes[:2], np.maximum(boxes[2:], 0.0)
    return np.concatenate([centre - size / 2, centre + size / 2])


def _area(corners: Array) -> Array:
    result: Array = np.prod(corners[2:] - corners[:2], axis=0)
    return result


def number_loss(found: Array, wanted: Array, weights: Array | None = None) -> float:
    """Of numbers [rows, columns]; `weights` has one for each row."""
    shares = np.ones(len(wanted)) if weights is None or not (weights >= _FAINT).any() else weights * (weights >= _FAINT)
    low, high = np.percentile(wanted[shares > 0], _RANGE)
    error = float(np.abs(found - wanted).mean(1) @ shares) / float(shares.sum())
    span = float(high - low) or float(np.abs(wanted).max(initial=0.0))
    return _share(error, span) if error else 0.0


def softmax(values: Array) -> Array:
    """Over the last axis."""
    parts = np.exp(values - values.max(-1, keepdims=True))
    result: Array = parts / parts.sum(-1, keepdims=True)
    return result


def sigmoid(values: Array) -> Array:
    """Of logits of any size."""
    result: Array = 1 / (1 + np.exp(-np.clip(values, -60, 60)))
    return result


def joined(arrays: Sequence[Array]) -> Array:
    """Runs one after the other, in double precision; what is infinite or no number counts as 0."""
    values = np.stack([np.asarray(array, np.float64) for array in arrays])
    return np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > _TINY else float(part > _TINY)
