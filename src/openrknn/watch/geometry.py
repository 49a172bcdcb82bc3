"""Points, polygons and lines in an image."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Point", "crosses", "is_inside", "is_simple"]

Point = tuple[float, float]


def is_inside(point: Point, polygon: Sequence[Point]) -> bool:
    """Even-odd rule. Left and upper edges belong to the polygon, right and lower ones do not."""
    x, y = point
    inside = False
    for (x0, y0), (x1, y1) in zip(polygon, (*polygon[1:], polygon[0]), strict=True):
        if (y0 > y) != (y1 > y) and x < x0 + (y - y0) * (x1 - x0) / (y1 - y0):
            inside = not inside
    return inside


def _side(point: Point, start: Point, end: Point) -> float:
    return (end[0] - start[0]) * (point[1] - start[1]) - (end[1] - start[1]) * (point[0] - start[0])


def crosses(before: Point, after: Point, start: Point, end: Point) -> int:
    """Whether a step crosses the line from `start` to `end`: 1 from its left to its right, -1 back, 0 not at all.

    Left and right as seen from `start`, with y down. A step that ends on the line has not crossed it; the next one that
    leaves it on the other side has, because a point on the line counts as on its right.
    """
    was, is_now = _side(before, start, end) >= 0, _side(after, start, end) >= 0
    if was == is_now:
        return 0
    # The line's ends have to be on different sides of the step.
    if (_side(start, before, after) >= 0) == (_side(end, before, after) >= 0):
        return 0
    return 1 if is_now else -1


def is_simple(polygon: Sequence[Point]) -> bool:
    """Whether no two edges of a polygon cross each other."""
    edges = list(zip(polygon, (*polygon[1:], polygon[0]), strict=True))
    for one in range(len(edges)):
        for two in range(one + 2, len(edges)):
            if one == 0 and two == len(edges) - 1:
                continue  # neighbours
            (a, b), (c, d) = edges[one], edges[two]
            if _side(a, c, d) * _side(b, c, d) < 0 and _side(c, a, b) * _side(d, a, b) < 0:
                return False
    return True
