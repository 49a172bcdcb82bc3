"""Boxes: NonMaxSuppression, RoiAlign and MaxRoiPool."""

from __future__ import annotations

import numpy as np

from openrknn.errors import UnsupportedError
from openrknn.runtime.operators.interface import (
    Array,
    Attributes,
    Inputs,
    Shape,
    bounded,
    fitting,
    integer,
    integers,
    number,
    optional,
    text,
)

_NOTHING = -1
"""Rows of NonMaxSuppression that no box fills."""


def non_max_suppression(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Rows (item, class, box) of what stays, the best first in each class; the file says how many rows there are."""
    boxes, scores = inputs[0], inputs[1]
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[2] != 4 or boxes.shape[1] != scores.shape[2]:
        raise UnsupportedError(f"boxes of {list(boxes.shape)} with scores of {list(scores.shape)}")
    most, overlap, least = (_scalar(optional(inputs, k), default) for k, default in ((2, 0.0), (3, 0.0), (4, None)))
    corners = _corners(boxes.astype(np.float64), centre=bool(integer(attributes, "center_point_box", 0)))
    rows = [
        (item, kind, box)
        for item in range(scores.shape[0])
        for kind in range(scores.shape[1])
        for box in _kept(corners[item], scores[item, kind], int(most or 0), float(overlap or 0), least)
    ]
    count = shape[0] if shape else 0
    result = np.full((bounded(count), 3), _NOTHING, np.int64)
    for number_, row in enumerate(rows[:count]):
        result[number_] = row
    return result


def _scalar(given: Array | None, default: float | None) -> float | None:
    return default if given is None else float(given.reshape(-1)[0])


def _corners(boxes: Array, *, centre: bool) -> Array:
    """Rows (top, left, bottom, right)."""
    if centre:
        x, y, width, height = np.moveaxis(boxes, -1, 0)
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=-1)
    low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    return np.concatenate([low, high], axis=-1)


def _kept(corners: Array, scores: Array, most: int, overlap: float, least: float | None) -> list[int]:
    order = np.argsort(-scores, kind="stable")
    if least is not None:
        order = order[scores[order] > least]
    areas = np.prod(corners[:, 2:] - corners[:, :2], axis=-1)
    kept: list[int] = []
    while order.size and len(kept) < most:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        low = np.maximum(corners[best, :2], corners[order, :2])
        high = np.minimum(corners[best, 2:], corners[order, 2:])
        common = np.prod(np.maximum(high - low, 0), axis=-1)
        union = areas[best] + areas[order] - common
        order = order[common <= overlap * np.where(union > 0, union, 1)]
    return kept


def roi_align(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """Each box is cut into cells; a cell is the mean or the maximum of linear samples inside it."""
    x, boxes = np.asarray(inputs[0], np.float64), np.asarray(inputs[1], np.float64).reshape(-1, 4)
    items = optional(inputs, 2)
    which = np.zeros(len(boxes), np.int64) if items is None else items.astype(np.int64).reshape(-1)
    rows, columns = integer(attributes, "output_height", 1), integer(attributes, "output_width", 1)
    fitting((len(boxes), x.shape[1], rows, columns), shape)
    if len(which) != len(boxes) or (which.size and not 0 <= which.min() <= which.max() < len(x)):
        raise UnsupportedError(f"{len(which)} items for {len(boxes)} boxes of {len(x)} pictures")
    half = 0.5 if text(attributes, "coordinate_transformation_mode", "half_pixel") == "half_pixel" else 0.0
    largest = text(attributes, "mode", "avg") == "max"
    result = np.zeros((len(boxes), x.shape[1], rows, columns))
    for number_, box in enumerate(boxes * number(attributes, "spatial_scale", 1.0) - half):
        left, top, right, bottom = (float(value) for value in np.nan_to_num(box))
        width, height = (right - left, bottom - top) if half else (max(right - left, 1), max(bottom - top, 1))
        ratio = integer(attributes, "sampling_ratio", 0)
        steps = [
            ratio if ratio > 0 else max(1, int(np.ceil(span / n))) for span, n in ((height, rows), (width, columns))
        ]
        bounded(x.shape[1], rows * steps[0], columns * steps[1])
        y = top + (np.arange(rows * steps[0]) + 0.5) * height / (rows * steps[0])
        z = left + (np.arange(columns * steps[1]) + 0.5) * width / (columns * steps[1])
        taps = _samples(x[which[number_]], y, z)
        cells = np.stack([t.reshape(x.shape[1], rows, steps[0], columns, steps[1]) for t in taps])
        result[number_] = cells.max(axis=(0, 3, 5)) if largest else cells.sum(axis=0).mean(axis=(2, 4))
    return result


def _samples(plane: Array, rows: Array, columns: Array) -> list[Array]:
    """The four weighted corners of each linear sample, [C, rows, columns]; 0 farther out than one pixel."""
    parts = []
    for places, size in ((rows, plane.shape[1]), (columns, plane.shape[2])):
        inside = (places >= -1) & (places <= size)
        place = np.clip(places, 0, size - 1)
        first = np.floor(place).astype(np.int64)
        second = np.minimum(first + 1, size - 1)
        rest = place - first
        parts.append(((first, (1 - rest) * inside), (second, rest * inside)))
    return [
        plane[:, row][:, :, column] * down[:, None] * across for row, down in parts[0] for column, across in parts[1]
    ]


def max_roi_pool(inputs: Inputs, attributes: Attributes, shape: Shape) -> Array:
    """The largest value of each cell of each box (item, left, top, right, bottom), rounded to whole pixels."""
    x, boxes = inputs[0], np.asarray(inputs[1], np.float64).reshape(-1, 5)
    cells = integers(attributes, "pooled_shape", ())
    if len(cells) != 2 or min(cells) < 1:
        raise UnsupportedError(f"boxes of {list(cells)} cells")
    result = np.zeros(fitting((len(boxes), x.shape[1], *cells), shape), x.dtype)
    scale = number(attributes, "spatial_scale", 1.0)
    for number_, box in enumerate(boxes):
        item = int(box[0])
        if not 0 <= item < len(x):
            raise UnsupportedError(f"a box of picture {item} of {len(x)}")
        left, top, right, bottom = (int(value) for value in np.floor(box[1:] * scale + 0.5))
        spans = [
            _cells(a, b, n, size)
            for a, b, n, size in zip((top, left), (bottom, right), cells, x.shape[2:], strict=True)
        ]
        for i, row in enumerate(spans[0]):
            for j, column in enumerate(spans[1]):
                if row.start < row.stop and column.start < column.stop:
                    result[number_, :, i, j] = x[item, :, row, column].max(axis=(1, 2))
    return result


def _cells(first: int, last: int, count: int, size: int) -> list[slice]:
    """The pixels of each cell between two whole places, both included."""
    length = max(last - first + 1, 1) / count
    starts = [int(np.floor(k * length)) + first for k in range(count)]
    stops = [int(np.ceil((k + 1) * length)) + first for k in range(count)]
    return [slice(min(max(a, 0), size), min(max(b, 0), size)) for a, b in zip(starts, stops, strict=True)]
