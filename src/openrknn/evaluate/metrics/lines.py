"""Lines of text that were found, beside those that are there: matched one to one at IoU 0.50, as ICDAR 2015 does."""

from __future__ import annotations

import numpy as np

from openrknn.evaluate.metrics.scores import Array
from openrknn.evaluate.truth import LinesTruth
from openrknn.vision.polygons import area, convex_hull, convex_overlap

_IOU = 0.5


def count_lines(truth: LinesTruth, found: Array) -> tuple[int, int, int]:
    """(right, found, there). Unreadable lines, and what was found on them, do not count."""
    hulls = [convex_hull(corners) for corners in truth.corners]
    ignored = [hull for hull, text in zip(hulls, truth.texts, strict=True) if text is None]
    wanted = [hull for hull, text in zip(hulls, truth.texts, strict=True) if text is not None]
    counted = [one for one in found if not any(_covered(one, hull) > _IOU for hull in ignored)]
    pairs = sorted(
        ((convex_overlap(one, hull), row, at) for row, one in enumerate(counted) for at, hull in enumerate(wanted)
         if len(hull) > 2),
        reverse=True,
    )  # fmt: skip
    rows: set[int] = set()
    columns: set[int] = set()
    for overlap, row, at in pairs:
        if overlap > _IOU and row not in rows and at not in columns:
            rows.add(row)
            columns.add(at)
    return len(rows), len(counted), len(wanted)


def _covered(one: Array, hull: Array) -> float:
    """The share of a line that is inside a region."""
    if len(hull) < 3:
        return 0.0
    size, whole = area(np.asarray(one)), area(hull)
    overlap = convex_overlap(one, hull)
    common = overlap * (size + whole) / (1 + overlap)
    return common / size if size > 0 else 0.0
