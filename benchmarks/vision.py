"""From the outputs of a YOLOv8 (640x640, 80 classes: 8400 cells, 415 candidates) to boxes: ours and what people write.

    python benchmarks/vision.py

The peers: the straightforward NumPy program (make floats of everything, decode every cell, then threshold and
suppress), and a careful one that filters first and lets OpenCV suppress (needs the extra `video`). All start from the
int8 arrays of the model, in turns, so that a busy machine disturbs all alike. Bars: at least 8 times as fast as the
straightforward one, at least as fast as the careful one; the same boxes from all.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.vision.decoders import yolov8
from openrknn.vision.heads import Frame, Head, Settings

Array: TypeAlias = npt.NDArray[Any]
Boxes: TypeAlias = tuple[Array, Array, Array]
"""[n, 4] corners, [n] scores, [n] classes; the best first."""

SIDE, CLASSES, BINS, CANDIDATES = 640, 80, 16, 415
STRIDES = (8, 16, 32)
THRESHOLD, OVERLAP, LIMIT = 0.25, 0.45, 300
TURNS = 60


def invented() -> list[Head]:
    """Outputs as int8: 415 cells in groups around 40 objects have a score above the threshold."""
    chance = np.random.default_rng(0)
    heads, wanted = [], {8: 300, 16: 90, 32: 25}
    for stride in STRIDES:
        rows = SIDE // stride
        box = chance.normal(0, 1.5, (1, 4 * BINS, rows, rows)).astype(np.float32)
        score = chance.uniform(0, 0.15, (1, CLASSES, rows, rows)).astype(np.float32)
        chosen: set[tuple[int, int]] = set()
        while len(chosen) < wanted[stride]:
            y, x, kind = (int(chance.integers(most)) for most in (rows, rows, CLASSES))
            width = int(chance.integers(1, 5))
            for near_y in range(max(y - 1, 0), min(y + 2, rows)):
                for near_x in range(max(x - width, 0), min(x + width, rows)):
                    if len(chosen) < wanted[stride] and (near_y, near_x) not in chosen:
                        chosen.add((near_y, near_x))
                        score[0, kind, near_y, near_x] = chance.uniform(0.3, 0.95)
        heads += [_quantized(f"box{stride}", box), _quantized(f"score{stride}", score)]
    return heads


def _quantized(name: str, values: Array) -> Head:
    low, high = min(float(values.min()), 0.0), float(values.max())
    scale = (high - low) / 255
    zero_point = round(-128 - low / scale)
    stored = np.clip(np.rint(values / scale + zero_point), -128, 127).astype(np.int8)
    return Head(name, stored, float(np.float32(scale)), zero_point)


def ours(heads: list[Head]) -> Boxes:
    """`openrknn.vision`."""
    found = yolov8.decode(heads, Frame(SIDE, SIDE), Settings(THRESHOLD, OVERLAP, LIMIT))
    return found.boxes, found.scores, found.classes


def straightforward(heads: list[Head]) -> Boxes:
    """Every output to floats, every cell to a box, then threshold, then suppression one class after the other."""
    floats = [(head.values.astype(np.float32) - head.zero_point) * np.float32(head.scale) for head in heads]
    boxes, scores = [], []
    for number, stride in enumerate(STRIDES):
        box, score = floats[2 * number], floats[2 * number + 1]
        rows = box.shape[2]
        sides = box.reshape(4, BINS, rows, rows)
        powers = np.exp(sides - sides.max(axis=1, keepdims=True))
        shares = powers / powers.sum(axis=1, keepdims=True)
        distance = (shares * np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1, 1)).sum(axis=1)
        x, y = np.meshgrid(np.arange(rows) + 0.5, np.arange(rows) + 0.5)
        corners = np.stack([x - distance[0], y - distance[1], x + distance[2], y + distance[3]]) * stride
        boxes.append(corners.reshape(4, -1).T)
        scores.append(score.reshape(CLASSES, -1).T)
    all_boxes, all_scores = np.concatenate(boxes), np.concatenate(scores)
    classes, best = all_scores.argmax(axis=1), all_scores.max(axis=1)
    passed = best >= THRESHOLD
    all_boxes, best, classes = all_boxes[passed], best[passed], classes[passed]
    kept: list[int] = []
    for kind in np.unique(classes):
        here = np.flatnonzero(classes == kind)
        kept += here[_suppressed(all_boxes[here], best[here])].tolist()
    rows_kept = np.array(sorted(kept, key=lambda row: -best[row]), np.int64)[:LIMIT]
    return all_boxes[rows_kept], best[rows_kept], classes[rows_kept]


def _suppressed(boxes: Array, scores: Array) -> Array:
    """The loop that every example has."""
    left, top, right, bottom = boxes.T
    areas = (right - left) * (bottom - top)
    order = np.argsort(-scores, kind="stable")
    kept = []
    while order.size:
        first, rest = order[0], order[1:]
        kept.append(first)
        width = np.maximum(np.minimum(right[first], right[rest]) - np.maximum(left[first], left[rest]), 0)
        height = np.maximum(np.minimum(bottom[first], bottom[rest]) - np.maximum(top[first], top[rest]), 0)
        both = width * height
        order = rest[both / (areas[first] + areas[rest] - both) <= OVERLAP]
    return np.array(kept, np.int64)


def careful(cv2: Any, heads: list[Head]) -> Boxes:
    """Filter on int8 first, decode what passed, and let OpenCV suppress, all classes in one call."""
    boxes, scores, classes = [], [], []
    for number, stride in enumerate(STRIDES):
        box, score = heads[2 * number], heads[2 * number + 1]
        rows = box.shape[2]
        stored = score.values.reshape(CLASSES, -1)
        best = stored.max(axis=0)
        cells = np.flatnonzero(best >= np.ceil(THRESHOLD / score.scale + score.zero_point))
        picked = (box.values.reshape(4 * BINS, -1)[:, cells].astype(np.float32) - box.zero_point) * box.scale
        sides = picked.reshape(4, BINS, -1)
        powers = np.exp(sides - sides.max(axis=1, keepdims=True))
        distance = (powers * np.arange(BINS, dtype=np.float32).reshape(1, BINS, 1)).sum(axis=1) / powers.sum(axis=1)
        x, y = cells % rows + 0.5, cells // rows + 0.5
        corners = np.stack([x - distance[0], y - distance[1], x + distance[2], y + distance[3]]) * stride
        boxes.append(corners.T)
        scores.append((best[cells].astype(np.float32) - score.zero_point) * score.scale)
        classes.append(stored[:, cells].argmax(axis=0))
    corners, best, kinds = np.concatenate(boxes), np.concatenate(scores), np.concatenate(classes)
    rectangles = corners.copy()
    rectangles[:, 2:] -= rectangles[:, :2]
    kept = np.array(cv2.dnn.NMSBoxesBatched(rectangles, best, kinds, THRESHOLD, OVERLAP), np.int64)[:LIMIT]
    return corners[kept], best[kept], kinds[kept]


def agree(first: Boxes, second: Boxes) -> bool:
    """The same boxes; of equal scores, in any order."""

    def rows(found: Boxes) -> list[tuple[float, ...]]:
        boxes, scores, classes = found
        table = np.concatenate([classes[:, None], scores[:, None].round(4), boxes.round(1)], axis=1)
        return sorted(map(tuple, table.tolist()))

    one, other = np.array(rows(first)), np.array(rows(second))
    return one.shape == other.shape and bool(np.allclose(one, other, atol=0.11))


def main() -> int:
    """Measure in turns, compare, and say whether the bars are met."""
    heads = invented()
    ways: dict[str, Callable[[list[Head]], Boxes]] = {"openrknn.vision": ours, "straightforward NumPy": straightforward}
    try:
        cv2 = importlib.import_module("cv2")
        ways["filter first, OpenCV suppresses"] = lambda outputs: careful(cv2, outputs)
    except ImportError:
        print("OpenCV is not installed (the extra `video`): the careful peer is left out")
    answers = {name: way(heads) for name, way in ways.items()}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(TURNS):
        for name, way in ways.items():
            started = time.perf_counter()
            way(heads)
            times[name].append(time.perf_counter() - started)
    mine = statistics.median(times["openrknn.vision"])
    well = True
    print(f"{'median of ' + str(TURNS):34}{'ms':>8}{'times ours':>12}{'boxes':>8}   the same")
    for name, values in times.items():
        factor = statistics.median(values) / mine
        same = agree(answers[name], answers["openrknn.vision"])
        well &= same and factor >= {"straightforward NumPy": 8.0}.get(name, 1.0)
        print(f"{name:34}{1e3 * statistics.median(values):8.2f}{factor:12.1f}{len(answers[name][0]):8}   {same}")
    print("bars met" if well else "NOT met")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
