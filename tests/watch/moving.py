"""Synthetic sequences for trackers: boxes that move, with noise, missed detections and occlusions."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Sequence", "sequences"]

Array = np.ndarray[Any, np.dtype[np.float64]]


class Sequence:
    """`truth[frame]` is a list of (identity, box); `found[frame]` is (boxes, scores), as a detector would give them."""

    def __init__(self, seed: int, objects: int = 6, frames: int = 60, miss: float = 0.05, noise: float = 1.5) -> None:
        dice = np.random.default_rng(seed)
        self.truth: list[list[tuple[int, Array]]] = []
        self.found: list[tuple[Array, Array]] = []
        size = dice.uniform(30, 70, (objects, 2))
        start = dice.uniform((40, 40), (560, 400), (objects, 2))
        speed = dice.uniform(-4, 4, (objects, 2))
        begin = dice.integers(0, frames // 3, objects)
        for frame in range(frames):
            here, boxes, scores = [], [], []
            for one in range(objects):
                if frame < begin[one]:
                    continue
                centre = start[one] + speed[one] * (frame - begin[one])
                box = np.concatenate([centre - size[one] / 2, centre + size[one] / 2])
                here.append((one, box))
                hidden = max((_covered(box, other) for _, other in here[:-1]), default=0.0)
                if dice.uniform() < miss or hidden > 0.6:
                    continue
                boxes.append(box + dice.normal(0, noise, 4))
                scores.append(float(np.clip(dice.uniform(0.75, 0.98) - 0.5 * hidden, 0.15, 1.0)))
            self.truth.append(here)
            self.found.append((np.array(boxes).reshape(-1, 4), np.array(scores)))


def _covered(box: Array, other: Array) -> float:
    low, high = np.maximum(box[:2], other[:2]), np.minimum(box[2:], other[2:])
    return float(np.prod(np.clip(high - low, 0, None)) / np.prod(box[2:] - box[:2]))


def sequences(count: int) -> list[Sequence]:
    """The same ones every time; every second one is crowded and badly seen."""
    return [Sequence(seed, objects=14, miss=0.25, noise=3.0) if seed % 2 else Sequence(seed) for seed in range(count)]
