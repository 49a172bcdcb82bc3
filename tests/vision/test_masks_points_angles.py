"""Segmentation, pose and turned boxes against slow twins."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from openrknn.vision.decoders import blaze, landmarks, obb, pose, segmentation, yolo_seg, yolov5
from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.polygons import area, convex_hull, convex_overlap, smallest_rectangle
from openrknn.vision.results import Objects
from tests.vision import slow
from tests.vision.tensors import FRAME, Array, cells, floats, grids, logits, plain, probabilities, quantized

WAYS = [plain, quantized]
SETTINGS = Settings(threshold=0.4, overlap=0.4)
Way = Callable[[Array], Head]


def slow_mask(coefficients: Array, prototypes: Array, box: tuple[float, ...], y: int, x: int) -> float:
    """The sum at the centre of one pixel of the frame; its sign is the mask."""
    if not (int(box[0]) <= x < math.ceil(box[2]) and int(box[1]) <= y < math.ceil(box[3])):
        return -1.0
    mixture = np.tensordot(coefficients.astype(float), prototypes[0].astype(float), 1)
    scale = prototypes.shape[2] / FRAME.height
    return slow.bilinear(mixture, (y + 0.5) * scale, (x + 0.5) * scale)


def check_masks(found: Objects, expected: slow.Found, coefficients: list[Array], prototypes: Array) -> None:
    kept = slow.suppressed(expected, SETTINGS.overlap)
    assert found.classes.tolist() == [expected[row][0] for row in kept]
    assert len(kept) > 2
    assert found.masks is not None
    assert found.masks.shape == (len(kept), FRAME.height, FRAME.width)
    chance = np.random.default_rng(0)
    for place, row in list(enumerate(kept))[:4]:
        for y, x in zip(chance.integers(0, FRAME.height, 60), chance.integers(0, FRAME.width, 60), strict=True):
            value = slow_mask(coefficients[row], prototypes, expected[row][2], int(y), int(x))
            if abs(value) > 1e-3:  # closer to zero, rounding decides
                assert found.masks[place, y, x] == (value > 0)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("with_total", [False, True])
def test_yolov8_seg(way: Way, with_total: bool) -> None:
    chance = np.random.default_rng(1)
    prototypes = way(chance.normal(0, 1, (1, 32, FRAME.height // 4, FRAME.width // 4)))
    heads: list[Head] = []
    for rows, columns in grids():
        heads += [way(chance.normal(0, 2, (1, 64, rows, columns)))]
        heads += [way(probabilities(chance, 1, 6, rows, columns, strong=0.02))]
        heads += [way(np.minimum(floats(heads[-1]).sum(1, keepdims=True), 1))] if with_total else []
        heads += [way(chance.normal(0, 1, (1, 32, rows, columns)))]
    step = 4 if with_total else 3
    assert yolo_seg.matches_split([head.shape for head in [*heads, prototypes]], FRAME)
    branches = [(floats(heads[at]), floats(heads[at + 1])) for at in range(0, len(heads), step)]
    expected, places = slow.yolov8(branches, FRAME.width, SETTINGS.threshold)
    masks = [floats(head).reshape(32, -1) for head in heads[step - 1 :: step]]
    coefficients = [masks[stride][:, cell] for stride, cell in places]
    found = yolo_seg.decode_split([*heads, prototypes], FRAME, SETTINGS)
    check_masks(found, expected, coefficients, floats(prototypes))


@pytest.mark.parametrize("way", WAYS)
def test_yolov5_seg(way: Way) -> None:
    chance = np.random.default_rng(2)
    prototypes = way(chance.normal(0, 1, (1, 8, FRAME.height // 4, FRAME.width // 4)))
    boxes = [way(probabilities(chance, 1, 3 * 11, *grid, strong=0.15)) for grid in grids()]
    masks = [way(chance.normal(0, 1, (1, 24, *grid))) for grid in grids()]
    heads = [head for pair in zip(boxes, masks, strict=True) for head in pair] + [prototypes]
    assert yolo_seg.matches_anchors([head.shape for head in heads], FRAME)
    expected, places = slow.yolov5(
        [floats(head) for head in boxes], yolov5.ANCHORS["yolov5"], FRAME.width, SETTINGS.threshold
    )
    coefficients = [floats(masks[s]).reshape(3, 8, -1)[anchor, :, cell] for s, anchor, cell in places]
    found = yolo_seg.decode_anchors(heads, FRAME, SETTINGS)
    check_masks(found, expected, coefficients, floats(prototypes))


def test_yolov8_seg_with_flat_boxes() -> None:
    chance = np.random.default_rng(3)
    prototypes = plain(chance.normal(0, 1, (1, 32, FRAME.height // 4, FRAME.width // 4)))
    count = cells()
    places = chance.uniform(0.1, 0.9, (2, count)) * [[96], [64]]
    sizes = chance.uniform(5, 30, (2, count))
    scores, masks = probabilities(chance, 3, count, strong=0.02), chance.normal(0, 1, (32, count))
    values = np.concatenate([places, sizes, scores, masks])
    head = plain(values[None])
    assert yolo_seg.matches_flat([head.shape, prototypes.shape], FRAME)
    expected: slow.Found = []
    coefficients = []
    for column in floats(head)[0].T:
        best = int(column[4:7].argmax())
        if column[4 + best] >= SETTINGS.threshold:
            expected.append((best, float(column[4 + best]), slow.centre_box(*map(float, column[:4]))))
            coefficients.append(column[7:])
    found = yolo_seg.decode_flat([head, prototypes], FRAME, SETTINGS)
    check_masks(found, expected, coefficients, floats(prototypes))


@pytest.mark.parametrize("way", WAYS)
def test_yolov8_pose(way: Way) -> None:
    chance = np.random.default_rng(4)
    heads = [
        way(np.concatenate([chance.normal(0, 2, (1, 64, *grid)), logits(probabilities(chance, 1, 1, *grid))], axis=1))
        for grid in grids()
    ]
    places_of_points = chance.uniform(0, 96, (1, 17, 2, cells()))
    points = way(np.concatenate([places_of_points, chance.random((1, 17, 1, cells()))], axis=2))
    assert pose.matches_split([head.shape for head in [*heads, points]], FRAME)
    branches = [(floats(head)[:, :64], 1 / (1 + np.exp(-floats(head)[:, 64:]))) for head in heads]
    expected, places = slow.yolov8(branches, FRAME.width, SETTINGS.threshold)
    firsts = np.cumsum([0, *(rows * columns for rows, columns in grids())])
    kept = slow.suppressed(expected, SETTINGS.overlap)
    found = pose.decode_split([*heads, points], FRAME, SETTINGS)
    wanted = [floats(points)[0, :, :, firsts[stride] + cell] for stride, cell in (places[row] for row in kept)]
    assert len(kept) > 3
    assert found.keypoints is not None
    assert found.keypoints == pytest.approx(np.array(wanted))
    assert found.scores == pytest.approx([expected[row][1] for row in kept], abs=1e-5)


def test_yolov8_pose_with_one_output() -> None:
    chance = np.random.default_rng(5)
    boxes = chance.uniform(10, 60, (4, cells()))
    scores = probabilities(chance, 1, cells())
    points = chance.random((3, 17, cells())) * np.array([96, 64, 1])[:, None, None]
    values = np.concatenate([boxes, scores, points.transpose(1, 0, 2).reshape(51, -1)])
    assert pose.matches_flat([(1, *values.shape)], FRAME)
    found = pose.decode_flat([plain(values[None])], FRAME, SETTINGS)
    best = int(scores[0].argmax())
    assert found.keypoints is not None
    assert found.keypoints[0] == pytest.approx(points[:, :, best].T, abs=1e-4)
    assert found.boxes[0] == pytest.approx(slow.centre_box(*boxes[:, best]), abs=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_turned_boxes(way: Way) -> None:
    chance = np.random.default_rng(6)
    heads = [
        way(np.concatenate([chance.normal(0, 2, (1, 64, *grid)), logits(probabilities(chance, 1, 3, *grid))], axis=1))
        for grid in grids()
    ]
    angle = way(chance.random((1, 1, cells())))
    assert obb.matches_split([head.shape for head in [*heads, angle]], FRAME)
    found = obb.decode_split([*heads, angle], FRAME, Settings(threshold=0.5, overlap=1.0))
    expected = []
    first = 0
    for head in heads:
        real = floats(head)[0].astype(float)
        rows, columns = real.shape[1:]
        stride = FRAME.width / columns
        for y in range(rows):
            for x in range(columns):
                scores = [slow.sigmoid(value) for value in real[64:, y, x]]
                if max(scores) < 0.5:
                    continue
                left, top, right, bottom = (slow.mean_bin(real[16 * side : 16 * side + 16, y, x]) for side in range(4))
                turn = (float(floats(angle)[0, 0, first + y * columns + x]) - 0.25) * math.pi
                u, v = (right - left) / 2, (bottom - top) / 2
                cx = (x + 0.5 + u * math.cos(turn) - v * math.sin(turn)) * stride
                cy = (y + 0.5 + u * math.sin(turn) + v * math.cos(turn)) * stride
                w, h = (left + right) * stride, (top + bottom) * stride
                corners = [
                    (cx + a * w / 2 * math.cos(turn) - b * h / 2 * math.sin(turn),
                     cy + a * w / 2 * math.sin(turn) + b * h / 2 * math.cos(turn))
                    for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
                ]  # fmt: skip
                expected.append((max(scores), scores.index(max(scores)), corners))
        first += rows * columns
    expected.sort(key=lambda entry: -np.float32(entry[0]))
    assert len(expected) > 3
    assert found.scores == pytest.approx([entry[0] for entry in expected], abs=1e-5)
    assert found.corners is not None
    if way is plain:  # int8 has ties, whose order is not said
        assert found.corners == pytest.approx(np.array([entry[2] for entry in expected]), abs=1e-2)


def test_turned_boxes_silence_each_other_by_their_polygons() -> None:
    """Two long boxes that cross: their upright boxes are the same, they themselves share little."""
    values = np.zeros((4 + 2 + 1, cells()), np.float32)
    values[:4] = 1
    values[:, 0] = [48, 32, 60, 6, 0.9, 0, math.pi / 4]
    values[:, 1] = [48, 32, 60, 6, 0.8, 0, -math.pi / 4]
    values[:, 2] = [49, 33, 60, 6, 0.7, 0, math.pi / 4]
    values[:, 3] = [49, 33, 60, 6, 0.6, 0.65, math.pi / 4]
    found = obb.decode_flat([plain(values[None])], FRAME, Settings(threshold=0.3, overlap=0.4))
    assert found.scores == pytest.approx([0.9, 0.8, 0.65])
    assert found.classes.tolist() == [0, 0, 1]


def test_overlap_of_turned_squares_by_hand() -> None:
    """A square of side 2 and the same turned by 45 degrees share a regular octagon: 8 (sqrt(2) - 1)."""
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1.0]])
    turned = np.array([[0, -math.sqrt(2)], [math.sqrt(2), 0], [0, math.sqrt(2)], [-math.sqrt(2), 0]])
    octagon = 8 * (math.sqrt(2) - 1)
    assert convex_overlap(square, turned) == pytest.approx(octagon / (8 - octagon))
    assert convex_overlap(square, square + 5) == 0
    assert convex_overlap(square, square[::-1]) == pytest.approx(1)


@settings(deadline=None, max_examples=60)
@given(some.integers(0, 2**32), some.integers(3, 40))
def test_the_smallest_rectangle_holds_all_points_and_no_sampled_one_is_smaller(seed: int, count: int) -> None:
    points = np.random.default_rng(seed).integers(0, 30, (count, 2)).astype(float)
    centre, size, angle = smallest_rectangle(points)
    away = points - centre
    along = away[:, 0] * math.cos(angle) + away[:, 1] * math.sin(angle)
    across = away[:, 1] * math.cos(angle) - away[:, 0] * math.sin(angle)
    assert np.abs(along).max() <= size[0] / 2 + 1e-3
    assert np.abs(across).max() <= size[1] / 2 + 1e-3
    for turn in np.linspace(0, math.pi / 2, 90):
        u = points[:, 0] * math.cos(turn) + points[:, 1] * math.sin(turn)
        v = points[:, 1] * math.cos(turn) - points[:, 0] * math.sin(turn)
        assert np.ptp(u) * np.ptp(v) >= size[0] * size[1] * (1 - 1e-5) - 1e-3


def test_a_hull_by_hand() -> None:
    points = np.array([[0, 0], [4, 0], [4, 3], [0, 3], [2, 1], [4, 1], [0, 0]])
    hull = convex_hull(points)
    assert sorted(map(tuple, hull.tolist())) == [(0, 0), (0, 3), (4, 0), (4, 3)]
    assert area(hull) == 12


@pytest.mark.parametrize("way", WAYS)
def test_a_class_for_every_pixel(way: Way) -> None:
    head = way(np.random.default_rng(7).normal(0, 1, (1, 5, FRAME.height // 2, FRAME.width // 2)))
    assert segmentation.matches([head.shape], FRAME)
    found = segmentation.decode([head], FRAME, SETTINGS)
    real = floats(head)[0]
    for y, x in ((0, 0), (3, 7), (31, 47), (15, 20)):
        assert found.classes[y, x] == int(real[:, y, x].argmax())
    assert sum(found.shares().values()) == pytest.approx(1)
    assert list(found.shares().values()) == sorted(found.shares().values(), reverse=True)


def test_an_output_of_classes() -> None:
    numbers = np.random.default_rng(8).integers(0, 19, (1, FRAME.height, FRAME.width)).astype(np.int32)
    assert segmentation.matches([numbers.shape], FRAME)
    assert (segmentation.decode([Head("x", numbers)], FRAME, SETTINGS).classes == numbers[0]).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("side", "strides", "points"), [(128, (8, 16, 16, 16), 6), (224, (8, 16, 32, 32, 32), 4)])
def test_blaze(way: Way, side: int, strides: tuple[int, ...], points: int) -> None:
    chance = np.random.default_rng(5)
    cells_of = [  # by the definition: layers of one stride share their cells
        ((x + 0.5) * stride, (y + 0.5) * stride)
        for stride in sorted(set(strides))
        for y in range(side // stride)
        for x in range(side // stride)
        for _ in range(2 * strides.count(stride))
    ]
    score = way(chance.normal(-6, 3, (1, len(cells_of), 1)))
    place = way(chance.uniform(5, 40, (1, len(cells_of), 4 + 2 * points)))
    frame = Frame(side, side)
    assert blaze.matches(side, [place.shape, score.shape], frame)
    expected: slow.Found = []
    rows = []
    for row, ((x, y), logit, numbers) in enumerate(zip(cells_of, floats(score)[0], floats(place)[0], strict=True)):
        if slow.sigmoid(float(logit[0])) >= SETTINGS.threshold:
            across, down, width, height = (float(number) for number in numbers[:4])
            corners = (x + across - width / 2, y + down - height / 2, x + across + width / 2, y + down + height / 2)
            expected.append((0, slow.sigmoid(float(logit[0])), corners))
            rows.append(row)
    found = blaze.decode([place, score], frame, SETTINGS)
    kept = slow.suppressed(expected, SETTINGS.overlap)
    assert len(kept) > 2
    np.testing.assert_allclose(found.boxes, [expected[row][2] for row in kept], atol=1e-3)
    assert found.keypoints is not None
    best = rows[kept[0]]
    pairs = floats(place)[0, best, 4:].reshape(points, 2) + np.array(cells_of[best])
    np.testing.assert_allclose(found.keypoints[0, :, :2], pairs, atol=1e-3)


def test_landmarks_of_one_hand_person_or_face() -> None:
    chance = np.random.default_rng(6)
    for size, (numbers, points, side, logit) in landmarks.KINDS.items():
        values = plain(chance.uniform(10, 90, (1, size)))
        sure, not_sure = (plain(np.full((1, 1), value)) for value in ((2.0, -2.0) if logit else (0.9, 0.1)))
        frame = Frame(side, side)
        assert landmarks.matches(size, [values.shape, sure.shape], frame)
        assert len(landmarks.decode(size, [values, not_sure], frame, SETTINGS)) == 0
        found = landmarks.decode(size, [values, sure], frame, SETTINGS)
        every = floats(values).reshape(-1, numbers)[:points]
        assert found.keypoints is not None
        np.testing.assert_allclose(found.keypoints[0, :, :2], every[:, :2], rtol=1e-6)
        assert found.boxes[0].tolist() == [*every[:, :2].min(0).tolist(), *every[:, :2].max(0).tolist()]
        assert math.isclose(found.scores[0], slow.sigmoid(2.0) if logit else 0.9, rel_tol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_a_mask_is_where_the_threshold_is_reached(way: Way) -> None:
    head = way(np.random.default_rng(7).uniform(0, 1, (1, FRAME.height, FRAME.width, 1)))
    assert segmentation.matches_mask([head.shape], FRAME)
    found = segmentation.decode_mask([head], FRAME, SETTINGS)
    wanted = floats(head).reshape(FRAME.height, FRAME.width) >= np.float32(SETTINGS.threshold)
    np.testing.assert_array_equal(found.classes, wanted.astype(int))
