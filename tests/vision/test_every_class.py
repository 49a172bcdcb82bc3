"""Candidates of every class: what average precision looks at."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from openrknn.vision.families import FAMILIES
from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.results import Objects

FRAME = Frame(64, 64)
CLASSES = 5
SHAPES: dict[str, Sequence[tuple[int, ...]]] = {
    "yolov8": [(1, c, n, n) for n in (8, 4, 2) for c in (64, CLASSES)],
    "yolov8-flat": [(1, 4 + CLASSES, 84)],
    "yolov5": [(1, 3 * (5 + CLASSES), n, n) for n in (8, 4, 2)],
    "yolov4-tiny": [(1, 3 * (5 + CLASSES), n, n) for n in (4, 2)],
    "yolox": [(1, 5 + CLASSES, n, n) for n in (8, 4, 2)],
}


def decoder(name: str) -> Callable[..., Objects]:
    return next(family.decode for family in FAMILIES if family.name == name)  # type: ignore[return-value]


@pytest.mark.parametrize("name", SHAPES)
def test_every_class_above_the_threshold_is_a_candidate(name: str) -> None:
    random = np.random.default_rng(1)
    heads = [Head(f"{at}", random.random(shape, np.float32)) for at, shape in enumerate(SHAPES[name])]
    sure = Settings(threshold=0.3, overlap=1.0, limit=100_000, sigmoid=False)
    best = decoder(name)(heads, FRAME, sure)
    every = decoder(name)(heads, FRAME, Settings(0.3, 1.0, 100_000, False, every_class=True))
    assert len(every) > len(best)

    def rows(found: Objects) -> set[tuple[float, ...]]:
        table = np.concatenate([found.boxes, found.scores[:, None], found.classes[:, None]], axis=1)
        return {tuple(row) for row in np.round(table.astype(float), 4).tolist()}

    assert rows(best) <= rows(every)
    assert every.scores.min() >= 0.3
    # Of each box the best class is the one that is found otherwise.
    places = {tuple(row[:4]) for row in rows(every)}
    assert places == {tuple(row[:4]) for row in rows(best)}
