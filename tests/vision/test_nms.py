"""Suppression against its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from openrknn import nativelib
from openrknn.vision import native, nms
from openrknn.vision.decoders import yolov8
from openrknn.vision.heads import Head, Settings
from openrknn.vision.nms import iou, keep_best, select
from openrknn.vision.results import Objects
from tests.vision import slow
from tests.vision.tensors import Array


def boxes(chance: np.random.Generator, count: int) -> Array:
    """On a coarse raster, so that many are equal or touch."""
    low = chance.integers(0, 12, (count, 2))
    return np.concatenate([low, low + chance.integers(0, 9, (count, 2))], axis=1).astype(np.float32)


@settings(deadline=None, max_examples=60)
@given(some.integers(0, 2**32), some.integers(0, 90), some.integers(1, 4), some.sampled_from([0.0, 0.3, 0.5, 0.9]))
def test_it_keeps_what_the_definition_keeps(seed: int, count: int, classes: int, overlap: float) -> None:
    chance = np.random.default_rng(seed)
    places, numbers = boxes(chance, count), chance.integers(0, classes, count)
    scores = chance.integers(1, 12, count).astype(np.float32) / 12  # with ties
    found = [
        (int(number), float(score), tuple(map(float, box)))
        for number, score, box in zip(numbers, scores, places, strict=True)
    ]
    assert keep_best(places, scores, numbers, overlap, 1000).tolist() == slow.suppressed(found, overlap)


def test_more_boxes_than_one_block() -> None:
    chance = np.random.default_rng(0)
    places = (boxes(chance, 900) + chance.random((900, 4)) * 0.01).astype(np.float32)
    scores, numbers = chance.random(900).astype(np.float32), chance.integers(0, 3, 900)
    found = [(int(n), float(s), tuple(map(float, b))) for n, s, b in zip(numbers, scores, places, strict=True)]
    expected = slow.suppressed(found, 0.2)
    assert keep_best(places, scores, numbers, 0.2, 10_000).tolist() == expected
    assert keep_best(places, scores, numbers, 0.2, 10).tolist() == expected[:10]


def test_overlaps_by_hand() -> None:
    """[0,0,4,4] and [2,2,6,6] share 2 x 2 of 16 + 16 - 4 = 28."""
    first, second = np.array([[0, 0, 4, 4.0]]), np.array([[2, 2, 6, 6.0], [0, 0, 4, 4], [4, 0, 8, 4], [1, 1, 1, 1]])
    assert iou(first, second)[0] == pytest.approx([4 / 28, 1, 0, 0])


def test_a_flood_of_undecided_cells_is_told() -> None:
    count = 600
    corner = np.arange(count, dtype=np.float32)[:, None] * 10
    places = np.concatenate([corner, corner, corner + 5, corner + 5], axis=1)
    undecided = Objects(places, np.full(count, 128 / 255, np.float32), np.zeros(count, np.int64))
    assert "0.51 or more" in select(undecided, Settings(threshold=0.3)).note
    many = Objects(places, np.linspace(0.3, 0.9, count).astype(np.float32), np.zeros(count, np.int64))
    assert select(many, Settings(limit=50)).note == ""
    assert len(select(many, Settings(limit=50))) == 50


needs_library = pytest.mark.skipif(nativelib.library() is None, reason="without the native library")


@needs_library
@given(some.integers(0, 2**32), some.integers(0, 400), some.floats(0, 1), some.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_the_native_suppression_is_that_of_numpy(seed: int, count: int, overlap: float, limit: int) -> None:
    chance = np.random.default_rng(seed)
    corners = chance.uniform(0, 60, (count, 2))
    places = np.concatenate([corners, corners + chance.uniform(-2, 30, (count, 2))], axis=1).astype(np.float32)
    scores = chance.integers(0, 40, count).astype(np.float32)
    classes = chance.integers(0, 3, count)
    order = np.argsort(-scores, kind="stable")
    quick = native.suppress(places, classes, order, overlap, limit)
    assert quick is not None
    assert quick.tolist() == nms._by_blocks(places, classes, order, overlap, limit).tolist()


@needs_library
@pytest.mark.parametrize("bins", [16, 17])
@pytest.mark.parametrize("limit", [-200, -100, 0, 100, 127, 200])
def test_natively_picked_cells_are_those_of_numpy(bins: int, limit: int) -> None:
    chance = np.random.default_rng(bins)
    score = Head("score", chance.integers(-128, 128, (1, 7, 37, 61), np.int8), 0.01, 3)
    box = Head("box", chance.integers(-128, 128, (1, 4 * bins, 37, 61), np.int8), 0.05, -7)
    quick = native.pick(score, box, limit)
    assert quick is not None
    plain = yolov8._pick(yolov8.Branch(box, score), score.values.reshape(7, -1), limit, Settings())
    for one, other in zip(quick[:3], plain[:3], strict=True):
        assert one.tolist() == other.tolist()
    assert quick[3] == pytest.approx(plain[3], abs=1e-5)


def test_what_native_code_does_not_know_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    score, box = (Head("x", np.zeros((1, 64, 4, 4), np.int8), 0.1, 1) for _ in range(2))
    floats = Head("x", np.zeros((1, 64, 4, 4), np.float32))
    single = Head("x", np.zeros((1, 4, 4, 4), np.int8), 0.1, 1)
    turned = Head("x", np.zeros((1, 4, 4, 64), np.int8).transpose(0, 3, 1, 2), 0.1, 1)
    for first, second in ((floats, box), (score, floats), (score, single), (turned, box)):
        assert native.pick(first, second, 1) is None
    monkeypatch.setenv(nativelib.ENVIRONMENT, "numpy")
    assert native.pick(score, box, 1) is None
    assert native.suppress(np.zeros((1, 4), np.float32), np.zeros(1), np.zeros(1, np.int64), 0.5, 9) is None
