"""Detectors against slow twins, on floats and on int8."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from openrknn.vision.decoders import end_to_end, flat, retinaface, ssd, yolov5, yolov8, yolox
from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.results import Objects
from tests.vision import slow
from tests.vision.tensors import FRAME, Array, cells, floats, grids, logits, plain, probabilities, quantized

WAYS = [plain, quantized]
SETTINGS = Settings(threshold=0.3, overlap=0.4)
Way = Callable[[Array], Head]


def compare(found: Objects, expected: slow.Found, settings: Settings = SETTINGS) -> None:
    """The same objects in the same order."""
    kept = [expected[row] for row in slow.suppressed(expected, settings.overlap)][: settings.limit]
    assert found.classes.tolist() == [entry[0] for entry in kept]
    assert found.scores == pytest.approx([entry[1] for entry in kept], abs=1e-5)
    assert found.boxes == pytest.approx(np.array([entry[2] for entry in kept]).reshape(-1, 4), abs=2e-3)
    assert len(kept) > 3  # else the test would prove nothing


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bins", [1, 16, 17])
@pytest.mark.parametrize("with_total", [False, True])
def test_yolov8_and_relatives(way: Way, bins: int, with_total: bool) -> None:
    chance = np.random.default_rng(bins)
    heads: list[Head] = []
    for rows, columns in grids():
        box = chance.normal(0, 2, (1, 4 * bins, rows, columns))
        box = np.abs(box) if bins == 1 else box
        score = probabilities(chance, 1, 7, rows, columns, strong=0.03)
        heads += [way(box), way(score)]
        if with_total:
            heads.append(way(np.minimum(floats(heads[-1]).sum(axis=1, keepdims=True), 1)))
    shapes = [head.shape for head in heads]
    assert yolov8.matches(shapes, FRAME)
    step = 3 if with_total else 2
    branches = [(floats(heads[at]), floats(heads[at + 1])) for at in range(0, len(heads), step)]
    expected, _ = slow.yolov8(branches, FRAME.width, SETTINGS.threshold)
    compare(yolov8.decode(heads, FRAME, SETTINGS), expected)
    # The order of the outputs does not matter, as long as those of one stride follow each other.
    turned = [head for at in range(len(heads) - step, -1, -step) for head in heads[at : at + step]]
    compare(yolov8.decode(turned, FRAME, SETTINGS), expected)


@pytest.mark.parametrize("way", WAYS)
def test_yolov8_with_box_and_score_in_one_output(way: Way) -> None:
    chance = np.random.default_rng(1)
    heads = []
    for rows, columns in grids():
        box = chance.normal(0, 2, (1, 64, rows, columns))
        score = logits(probabilities(chance, 1, 5, rows, columns, strong=0.03))
        heads.append(way(np.concatenate([box, score], axis=1)))
    assert yolov8.matches_merged([head.shape for head in heads], FRAME)
    branches = [(floats(head)[:, :64], 1 / (1 + np.exp(-floats(head)[:, 64:]))) for head in heads]
    expected, _ = slow.yolov8(branches, FRAME.width, SETTINGS.threshold)
    compare(yolov8.decode_merged(heads, FRAME, SETTINGS), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", ["yolov5", "yolov7"])
@pytest.mark.parametrize("is_logits", [False, True])
def test_yolov5_and_v7(way: Way, family: str, is_logits: bool) -> None:
    chance = np.random.default_rng(2)
    values = [probabilities(chance, 1, 3 * 9, rows, columns, strong=0.15) for rows, columns in grids()]
    heads = [way(logits(value) if is_logits else value) for value in values]
    assert yolov5.matches([head.shape for head in heads], FRAME)
    real = [1 / (1 + np.exp(-floats(head))) if is_logits else floats(head) for head in heads]
    expected, _ = slow.yolov5(real, yolov5.ANCHORS[family], FRAME.width, SETTINGS.threshold)
    found = yolov5.decode(heads, FRAME, SETTINGS, family=family)
    compare(found, expected)


def test_yolov5_of_four_strides_has_anchors_of_its_own() -> None:
    chance = np.random.default_rng(3)
    frame = Frame(128, 128)
    heads = [plain(probabilities(chance, 1, 18, 128 // stride, 128 // stride)) for stride in (8, 16, 32, 64)]
    expected, _ = slow.yolov5([floats(head) for head in heads], yolov5.ANCHORS["yolov5-p6"], 128, 0.3)
    compare(yolov5.decode(heads, frame, SETTINGS), expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_logits", [False, True])
def test_yolox(way: Way, is_logits: bool) -> None:
    chance = np.random.default_rng(4)
    heads = []
    for rows, columns in grids():
        box = chance.normal(0, 0.7, (1, 4, rows, columns))
        score = probabilities(chance, 1, 8, rows, columns, strong=0.3)
        heads.append(way(np.concatenate([box, logits(score) if is_logits else score], axis=1)))
    real = [floats(head) for head in heads]
    if is_logits:
        real = [np.concatenate([r[:, :4], 1 / (1 + np.exp(-r[:, 4:]))], axis=1) for r in real]
    assert yolox.matches([head.shape for head in heads], FRAME)
    compare(yolox.decode(heads, FRAME, SETTINGS), slow.yolox(real, FRAME.width, SETTINGS.threshold))


def boxes_and_scores(chance: np.random.Generator, count: int, classes: int, unit: Sequence[float]) -> Array:
    """[4 + classes, n]: centres and sizes in `unit`s, then scores."""
    places = chance.uniform(0.1, 0.9, (2, count)) * np.array(unit)[:, None]
    sizes = chance.uniform(0.05, 0.3, (2, count)) * np.array(unit)[:, None]
    return np.concatenate([places, sizes, probabilities(chance, classes, count, strong=0.05)]).astype(np.float32)


@pytest.mark.parametrize("unit", [(96.0, 64.0), (1.0, 1.0)])
def test_yolov8_with_one_output_in_pixels_or_parts(unit: tuple[float, float]) -> None:
    values = boxes_and_scores(np.random.default_rng(5), cells(), 6, unit)
    assert flat.matches_scores([(1, *values.shape)], FRAME)
    expected: slow.Found = []
    across, down = FRAME.width / unit[0], FRAME.height / unit[1]
    for column in values.T.astype(float):
        best = int(column[4:].argmax())
        if column[4 + best] >= 0.3:
            x, y, w, h = column[:4]
            expected.append((best, column[4 + best], slow.centre_box(x * across, y * down, w * across, h * down)))
    compare(flat.decode_scores([plain(values[None])], FRAME, SETTINGS), expected)


def test_int8_boxes_and_scores_under_one_scale_are_told() -> None:
    """The scale of coordinates up to 96 is 0.37: every score becomes 0, 0.37 or 0.75."""
    values = boxes_and_scores(np.random.default_rng(6), cells(), 6, (96.0, 64.0))
    found = flat.decode_scores([quantized(values[None], "output0")], FRAME, SETTINGS)
    assert "separate outputs" in found.note
    assert "'output0'" in found.note
    parts = boxes_and_scores(np.random.default_rng(6), cells(), 6, (1.0, 1.0))
    assert flat.decode_scores([quantized(parts[None])], FRAME, SETTINGS).note == ""


@pytest.mark.parametrize("anchors", [1, 3])
def test_yolov5_and_decoded_yolox_with_one_output(anchors: int) -> None:
    chance = np.random.default_rng(7)
    values = boxes_and_scores(chance, anchors * cells(), 6, (96.0, 64.0)).T
    values = np.concatenate([values[:, :4], probabilities(chance, len(values), 1, strong=0.5), values[:, 4:]], axis=1)
    expected: slow.Found = []
    for row in values.astype(float):
        best = int(row[5:].argmax())
        score = float(np.float32(row[4]) * np.float32(row[5 + best]))
        if row[4] >= 0.3 and score >= 0.3:
            expected.append((best, score, slow.centre_box(*row[:4])))
    decode = flat.decode_objects if anchors == 3 else flat.decode_yolox
    matches = flat.matches_objects if anchors == 3 else flat.matches_yolox
    assert matches([(1, *values.shape)], FRAME)
    compare(decode([plain(values[None])], FRAME, SETTINGS), expected)


def test_raw_yolox_with_one_output_is_that_with_three() -> None:
    chance = np.random.default_rng(8)
    heads = []
    for rows, columns in grids():
        box = chance.normal(0, 0.7, (1, 4, rows, columns))
        heads.append(np.concatenate([box, probabilities(chance, 1, 8, rows, columns, strong=0.3)], axis=1))
    rows_of_all = np.concatenate([head.reshape(12, -1) for head in heads], axis=1).T
    one = flat.decode_yolox([plain(rows_of_all[None])], FRAME, SETTINGS)
    three = yolox.decode([plain(head) for head in heads], FRAME, SETTINGS)
    assert len(one) > 3
    assert one.boxes == pytest.approx(three.boxes, abs=1e-3)
    assert one.classes.tolist() == three.classes.tolist()


def test_finished_objects() -> None:
    rows = np.array([[1, 2, 3, 4, 0.2, 7], [5, 6, 7, 8, 0.9, 3], [9, 9, 10, 10, 0.5, 0], [0, 0, 0, 0, 0, 0]])
    found = end_to_end.decode([plain(rows[None])], FRAME, SETTINGS)
    assert found.classes.tolist() == [3, 0]
    assert found.boxes.tolist() == [[5, 6, 7, 8], [9, 9, 10, 10]]
    assert found.scores == pytest.approx([0.9, 0.5])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_logits", [False, True])
def test_retinaface(way: Way, is_logits: bool) -> None:
    chance = np.random.default_rng(9)
    priors = slow.retinaface_priors(FRAME.width, FRAME.height)
    place, points = (way(chance.normal(0, 1, (1, len(priors), size))) for size in (4, 10))
    sure = probabilities(chance, len(priors), strong=0.1)
    both = np.stack([1 - sure, sure], axis=1)[None]
    face = way(np.log(np.maximum(both, 1e-3)) if is_logits else both)
    heads = [place, face, points]
    assert retinaface.matches([head.shape for head in heads], FRAME)
    found = retinaface.decode(heads, FRAME, SETTINGS)
    expected: slow.Found = []
    marks: list[Any] = []
    for row, (x, y, size) in enumerate(priors):
        two = floats(face)[0, row].astype(float)
        score = float(np.exp(two[1]) / np.exp(two).sum()) if is_logits else two[1]
        if score < SETTINGS.threshold:
            continue
        move = floats(place)[0, row].astype(float)
        centre = (x + 0.1 * move[0] * size, y + 0.1 * move[1] * size)
        expected.append((0, score, slow.centre_box(*centre, *(size * np.exp(0.2 * move[2:])))))
        five = floats(points)[0, row].astype(float).reshape(5, 2)
        marks.append([(x + 0.1 * u * size, y + 0.1 * v * size, 1.0) for u, v in five])
    compare(found, expected)
    kept = slow.suppressed(expected, SETTINGS.overlap)
    assert found.keypoints is not None
    assert found.keypoints == pytest.approx(np.array([marks[row] for row in kept]), abs=2e-3)


@pytest.mark.parametrize("way", WAYS)
def test_ssd(way: Way) -> None:
    chance = np.random.default_rng(10)
    frame = Frame(100, 80)
    priors = slow.ssd_priors(frame.width, frame.height)
    place = way(chance.normal(0, 1, (1, len(priors), 1, 4)))
    score = way(logits(probabilities(chance, 1, len(priors), 5, strong=0.03)))
    assert ssd.matches([place.shape, score.shape], frame)
    expected: slow.Found = []
    for row, (x, y, w, h) in enumerate(priors):
        values = 1 / (1 + np.exp(-floats(score)[0, row, 1:].astype(float)))
        best = int(values.argmax())
        if values[best] < SETTINGS.threshold:
            continue
        dy, dx, dh, dw = floats(place)[0, row, 0].astype(float)
        cx, cy = (x + dx / 10 * w) * frame.width, (y + dy / 10 * h) * frame.height
        size = w * np.exp(dw / 5) * frame.width, h * np.exp(dh / 5) * frame.height
        expected.append((best, values[best], slow.centre_box(cx, cy, *size)))
    compare(ssd.decode([place, score], frame, SETTINGS), expected)


@pytest.mark.parametrize("way", WAYS)
def test_ssd_that_ends_in_its_convolutions(way: Way) -> None:
    """Twelve outputs that hold what two held: the same objects. The witness is `decode`, which has a slow twin."""
    chance = np.random.default_rng(11)
    frame = Frame(100, 80)
    count, classes = len(slow.ssd_priors(frame.width, frame.height)), 5
    place = chance.normal(0, 1, (count, 4))
    score = logits(probabilities(chance, count, classes, strong=0.03))
    heads, start, rows, columns = [], 0, 5, 7
    for layer in range(6):
        boxes = 3 if layer == 0 else 6
        stop = start + rows * columns * boxes
        for part in (score[start:stop], place[start:stop]):
            cells_first = part.reshape(rows, columns, boxes * part.shape[1])
            heads.append(way(cells_first.transpose(2, 0, 1)[None]))
        start, rows, columns = stop, -(-rows // 2), -(-columns // 2)
    shapes = [head.shape for head in heads]
    assert ssd.matches_split(shapes, frame)
    assert ssd.classes_split(shapes) == classes - 1
    assert not ssd.matches_split(shapes, Frame(200, 80))
    assert not ssd.matches_split(shapes[:-1], frame)

    def joined(which: int) -> Head:
        parts = [floats(head)[0].transpose(1, 2, 0).reshape(-1, (classes, 4)[which]) for head in heads[which::2]]
        return plain(np.concatenate(parts)[None])

    found, wanted = ssd.decode_split(heads, frame, SETTINGS), ssd.decode([joined(1), joined(0)], frame, SETTINGS)
    assert len(wanted) > 3
    assert found.classes.tolist() == wanted.classes.tolist()
    np.testing.assert_allclose(found.boxes, wanted.boxes, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-5)


def test_ssd_of_300_pixels_has_1917_priors() -> None:
    assert len(ssd.priors(Frame(300, 300))) == 1917
    assert len(retinaface.priors(Frame(640, 640))) == 16800


def test_nothing_above_the_threshold() -> None:
    heads = [plain(np.zeros((1, 27, rows, columns))) for rows, columns in grids()]
    assert len(yolov5.decode(heads, FRAME, SETTINGS)) == 0
    assert len(yolox.decode(heads, FRAME, SETTINGS)) == 0
    merged = [plain(np.concatenate([np.zeros((1, 64, *grid)), np.full((1, 3, *grid), -9.0)], 1)) for grid in grids()]
    assert len(yolov8.decode_merged(merged, FRAME, SETTINGS)) == 0
