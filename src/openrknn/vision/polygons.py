"""Convex polygons: cutting, hulls, and the smallest rectangle around points."""

from __future__ import annotations

import numpy as np

from openrknn.vision.heads import Array, Floats


def area(polygon: Array) -> float:
    """Of [n, 2] corners in order: |sum of x_i y_i+1 - x_i+1 y_i| / 2."""
    if len(polygon) < 3:
        return 0.0
    x, y = polygon[:, 0].astype(np.float64), polygon[:, 1].astype(np.float64)
    return abs(float(np.dot(x, np.roll(y, -1)) - np.dot(np.roll(x, -1), y))) / 2


def convex_overlap(first: Array, second: Array) -> float:
    """Intersection over union of two convex polygons."""
    common = area(_cut(first.astype(np.float64), second.astype(np.float64)))
    together = area(first) + area(second) - common
    return common / together if together > 0 else 0.0


def _cut(polygon: Array, by: Array) -> Array:
    """The part of a polygon inside a convex one: cut along one side after the other."""
    if _turn(by[0], by[1], by[2:].mean(axis=0)) < 0:
        by = by[::-1]
    for start, end in zip(by, np.roll(by, -1, axis=0), strict=True):
        if not len(polygon):
            break
        polygon = _half(polygon, start, end)
    return polygon


def _half(polygon: Array, start: Array, end: Array) -> Array:
    """The part of a polygon to the left of the line from start to end."""
    kept = []
    sides = [_turn(start, end, point) for point in polygon]
    for number, point in enumerate(polygon):
        following = (number + 1) % len(polygon)
        if sides[number] >= 0:
            kept.append(point)
        if sides[number] * sides[following] < 0:
            share = sides[number] / (sides[number] - sides[following])
            kept.append(point + share * (polygon[following] - point))
    return np.array(kept) if kept else np.zeros((0, 2))


def _turn(start: Array, end: Array, point: Array) -> float:
    """Positive where `point` is on the left of the line from start to end."""
    return float((end[0] - start[0]) * (point[1] - start[1]) - (end[1] - start[1]) * (point[0] - start[0]))


def convex_hull(points: Array) -> Array:
    """The corners of the smallest convex polygon around [n, 2], in order (Andrew's monotone chain)."""
    ordered = np.unique(points.astype(np.float64), axis=0)
    if len(ordered) < 3:
        return ordered
    lower, upper = _chain(ordered), _chain(ordered[::-1])
    return np.array(lower[:-1] + upper[:-1])


def _chain(ordered: Array) -> list[Array]:
    chain: list[Array] = []
    for point in ordered:
        while len(chain) > 1 and _turn(chain[-2], chain[-1], point) <= 0:
            chain.pop()
        chain.append(point)
    return chain


def smallest_rectangle(points: Array) -> tuple[Floats, Floats, float]:
    """Centre [2], size [2] and angle of the smallest rectangle around the points.

    One of its sides is on a side of the convex hull, so it is enough to try these.
    """
    hull = convex_hull(points)
    sides = np.roll(hull, -1, axis=0) - hull
    angles = np.arctan2(sides[:, 1], sides[:, 0]) % (np.pi / 2) if len(hull) > 1 else np.zeros(1)
    cosine, sine = np.cos(angles)[:, None], np.sin(angles)[:, None]
    along = hull[:, 0] * cosine + hull[:, 1] * sine
    across = hull[:, 1] * cosine - hull[:, 0] * sine
    low = np.stack([along.min(axis=1), across.min(axis=1)])
    high = np.stack([along.max(axis=1), across.max(axis=1)])
    best = int(np.prod(high - low, axis=0).argmin())
    middle, angle = (low + high)[:, best] / 2, float(angles[best])
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return (turn @ middle).astype(np.float32), (high - low)[:, best].astype(np.float32), angle
