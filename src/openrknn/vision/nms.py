"""Non-maximum suppression: of boxes of one class that overlap, the best stays.

    walk through the boxes from the best score down; keep a box if no kept box of its class has
    IoU(a, b) = |a ∩ b| / |a ∪ b| > overlap with it

Exactly this, in native code; or with NumPy a block of boxes at a time: within a block one matrix of overlaps as bits,
and what the block keeps silences all later boxes in one go.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from openrknn.vision import native
from openrknn.vision.heads import Array, Floats, Settings
from openrknn.vision.results import Objects

_BLOCK = 96
"""Small, so that what the first block keeps silences most of the others before they are compared."""
_FLOOD = 500
"""This many candidates with the same score are not objects."""
_UNDECIDED = (0.45, 0.65)
"""Where sigmoid(0) = 0.5 ends up after int8 rounding with a fine or a coarse scale."""


def iou(first: Array, second: Array) -> Floats:
    """[n, 4] and [m, 4] -> [n, m]; boxes without area overlap nothing."""
    left = np.maximum(first[:, None, 0], second[None, :, 0])
    top = np.maximum(first[:, None, 1], second[None, :, 1])
    width = np.minimum(first[:, None, 2], second[None, :, 2])
    height = np.minimum(first[:, None, 3], second[None, :, 3])
    width -= left
    height -= top
    np.maximum(width, 0, out=width)
    np.maximum(height, 0, out=height)
    width *= height
    together = _area(first)[:, None] + _area(second)[None, :]
    together -= width
    np.maximum(together, np.finfo(np.float32).tiny, out=together)
    width /= together
    return np.asarray(width, np.float32)


def _area(boxes: Array) -> Array:
    width, height = np.maximum(boxes[:, 2:] - boxes[:, :2], 0).T
    return np.asarray(width * height)


def keep_best(boxes: Array, scores: Array, classes: Array, overlap: float, limit: int) -> npt.NDArray[np.int64]:
    """The rows that stay, the best first; boxes of equal score in the order of their rows."""
    order = np.argsort(-scores, kind="stable")
    quick = native.suppress(boxes, classes, order, overlap, limit)
    return _by_blocks(boxes, classes, order, overlap, limit) if quick is None else quick


def _by_blocks(
    boxes: Array, classes: Array, order: Array, overlap: float, limit: int
) -> npt.NDArray[np.int64]:
    kept: list[Array] = []
    count = 0
    while order.size and count < limit:
        block, rest = order[:_BLOCK], order[_BLOCK:]
        winners = block[_greedy(_rivals(boxes, classes, block, block, overlap))]
        kept.append(winners)
        count += winners.size
        order = rest[~_rivals(boxes, classes, winners, rest, overlap).any(axis=0)] if rest.size else rest
    return np.concatenate(kept)[:limit] if kept else np.zeros(0, np.int64)


def _rivals(boxes: Array, classes: Array, first: Array, second: Array, overlap: float) -> npt.NDArray[np.bool_]:
    """[n, m]: which of the first and which of the second cannot both stay."""
    same = classes[first][:, None] == classes[second][None, :]
    return np.asarray(same & (iou(boxes[first], boxes[second]) > overlap), np.bool_)


def _greedy(overlapping: npt.NDArray[np.bool_]) -> list[int]:
    """Rows, from the first, that no earlier kept row overlaps. Rows as long integers: one `or` per kept row."""
    packed = np.packbits(overlapping, axis=1, bitorder="little")
    data, width = packed.tobytes(), packed.shape[1]
    silenced, kept = 0, []
    for number in range(len(packed)):
        if not silenced >> number & 1:
            kept.append(number)
            silenced |= int.from_bytes(data[number * width : (number + 1) * width], "little")
    return kept


def select(candidates: Objects, settings: Settings) -> Objects:
    """The objects among the candidates, and a note where the candidates look like none."""
    rows = keep_best(candidates.boxes, candidates.scores, candidates.classes, settings.overlap, settings.limit)
    chosen = candidates.take(rows)
    note = _flood(candidates.scores)
    return replace(chosen, note=note) if note else chosen


def _flood(scores: Array) -> str:
    """Thousands of cells that all say sigmoid(0): the model has lost its scores, and a threshold below is no help."""
    if len(scores) < _FLOOD:
        return ""
    values, counts = np.unique(scores, return_counts=True)
    most = int(counts.argmax())
    value = float(values[most])
    if counts[most] < len(scores) / 2 or not _UNDECIDED[0] < value < _UNDECIDED[1]:
        return ""
    return (
        f"{counts[most]} candidates have the same score {value:.3f}, which is sigmoid(0) after rounding: "
        "no opinion. Use a threshold above it (0.51 or more); if nothing is left then, box and score share one "
        "int8 scale, and the model has to be converted with separate outputs"
    )
