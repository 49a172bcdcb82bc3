"""What an output loses: by hand-made numbers whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from openrknn.compiler.accuracy.losses import box_loss, class_loss, number_loss, score_loss, sigmoid, softmax
from openrknn.compiler.accuracy.outputs import OutputLoss, kind_of, losses_of
from openrknn.compiler.importer import import_model
from openrknn.compiler.ir import Array
from tests.compiler.nets import Net

RANDOM = np.random.default_rng(0)


def test_another_class_costs_what_float_was_sure_of_it() -> None:
    wanted = np.array([[0.6, 0.4, 0.0], [0.1, 0.9, 0.0]])
    assert class_loss(wanted * 3 + 1, wanted) == 0.0  # the largest counts, not its size
    near, far = wanted.copy(), wanted.copy()
    near[0] = 0.4, 0.6, 0.0
    far[1] = 0.0, 0.1, 0.9
    assert class_loss(near, wanted) == pytest.approx(0.2 / 1.5)
    assert class_loss(far, wanted) == pytest.approx(0.9 / 1.5)


def test_scores_lose_by_their_order_and_by_what_crosses_one_half() -> None:
    wanted = np.array([0.95, 0.9, 0.7, 0.55, 0.3, 0.1, 0.01, 0.0])
    assert score_loss(wanted, wanted) == 0.0
    assert score_loss(np.where(wanted < 0.05, 0.04, wanted), wanted) == 0.0  # nobody looks at those
    swapped = wanted[[5, 1, 2, 3, 4, 0, 6, 7]]
    assert score_loss(swapped, wanted) > 0.2
    lost = np.where(wanted == 0.9, 0.0, wanted)
    assert 0.05 < score_loss(lost, wanted) < 0.5
    slight = np.where(wanted == 0.55, 0.49, wanted)
    assert 0 < score_loss(slight, wanted) < score_loss(lost, wanted)


def test_scores_of_nothing_lose_what_is_invented() -> None:
    nothing = np.zeros(5)
    assert score_loss(np.array([0, 0, 0.3, 0, 0.0]), nothing) == pytest.approx(0.3)
    assert score_loss(nothing, nothing) == 0.0


def test_boxes_lose_their_overlap_where_there_is_something() -> None:
    boxes = np.array([[10.0, 50.0], [10.0, 50.0], [4.0, 8.0], [4.0, 8.0]])
    moved = boxes + np.array([[2.0, 30.0], [0, 0], [0, 0], [0, 0]])
    assert box_loss(boxes, boxes, np.array([0.9, 0.9])) == pytest.approx(0.0)
    assert box_loss(moved, boxes, np.array([0.9, 0.01])) == pytest.approx(1 - 8 / 24)  # half of it: 8 of 24
    assert box_loss(moved, boxes, np.array([0.01, 0.01])) == 0.0


def test_numbers_lose_a_share_of_their_range() -> None:
    wanted = np.linspace(0, 100, 1001).reshape(1, -1)
    assert number_loss(wanted + 1, wanted) == pytest.approx(1 / 98, rel=0.01)
    rows = np.concatenate([wanted, wanted])
    off = rows + np.array([[1.0], [50.0]])
    assert number_loss(off, rows, np.array([0.9, 0.0])) == pytest.approx(1 / 98, rel=0.01)  # row 2 has no score
    assert number_loss(np.ones((1, 4)), np.zeros((1, 4))) == 1.0
    assert number_loss(np.full((1, 4), 5.0), np.full((1, 4), 5.0)) == 0.0


def detector(*, is_joined: bool) -> tuple[object, list[str]]:
    net = Net()
    boxes = net.add("Reshape", net.conv("x", 4, 4), net.constant([1, 4, 64], np.int64))
    scores = net.add("Sigmoid", net.add("Reshape", net.conv("x", 4, 3), net.constant([1, 3, 64], np.int64)))
    outputs = [net.add("Concat", boxes, scores, axis=1)] if is_joined else [boxes, scores]
    return net.model({"x": (1, 4, 8, 8)}, outputs), outputs


def measured(model: object, wanted: dict[str, list[Array]], found: dict[str, list[Array]]) -> dict[str, OutputLoss]:
    imported = import_model(model)
    return {entry.output: entry for entry in losses_of(imported.model, imported.graph, found, wanted)}


def test_boxes_and_scores_in_one_output_are_told_apart() -> None:
    model, (name,) = detector(is_joined=True)
    boxes = RANDOM.uniform(20, 200, (1, 4, 64))
    scores = np.where(RANDOM.random((1, 3, 64)) > 0.9, 0.9, 0.01)
    wanted = np.concatenate([boxes, scores], axis=1)
    lost = wanted.copy()
    lost[:, 4:] = 0.0  # what one scale for all leaves of the scores: 53 dB are left
    loss = measured(model, {name: [wanted]}, {name: [lost]})[name]
    assert loss.kind == "detections"
    assert loss.loss > 0.5
    assert loss.snr_db > 30
    moved = wanted.copy()
    moved[:, :2] += 5
    assert 0.02 < measured(model, {name: [wanted]}, {name: [moved]})[name].loss < 0.5


def test_what_an_output_means_is_read_from_its_last_operators() -> None:
    model, (boxes, scores) = detector(is_joined=False)
    imported = import_model(model)
    wanted = {boxes: [RANDOM.normal(0, 9, (1, 4, 64))], scores: [sigmoid(RANDOM.normal(0, 3, (1, 3, 64)))]}
    kinds = {name: kind_of(imported.model, imported.graph, name, wanted) for name in wanted}
    assert kinds == {boxes: "numbers", scores: "scores"}  # boxes beside scores are none
    net = Net()
    out = net.add("Softmax", net.add("Flatten", net.conv("x", 4, 7)), axis=1)
    imported = import_model(net.model({"x": (1, 4, 1, 1)}, [out]))
    assert kind_of(imported.model, imported.graph, out, {out: [softmax(RANDOM.normal(0, 1, (1, 7)))]}) == "classes"


def test_a_row_of_logits_is_classes_and_an_embedding_is_not() -> None:
    net = Net()
    out = net.add("Flatten", net.conv("x", 4, 200))
    imported = import_model(net.model({"x": (1, 4, 1, 1)}, [out]))
    logits = [RANDOM.normal(0, 1, (1, 200)) for _ in range(6)]
    for number, row in enumerate(logits):
        row[0, 30 * number] += 9
    embeddings = [RANDOM.normal(0, 1, (1, 200)) for _ in range(6)]
    landmarks = [np.abs(RANDOM.normal(90, 30, (1, 200))) for _ in range(6)]
    around = [RANDOM.normal(0, 60, (1, 200)) for _ in range(6)]
    cases = (logits, embeddings, landmarks, around)
    kinds = [kind_of(imported.model, imported.graph, out, {out: rows}) for rows in cases]
    assert kinds == ["classes", "numbers", "numbers", "numbers"]


def test_anchors_without_a_sigmoid_have_scores_beside_their_boxes() -> None:
    net = Net()
    rows = net.conv("x", 4, 17)
    turned = net.add("Reshape", net.add("Transpose", rows, perm=[0, 2, 3, 1]), net.constant([1, 64, 17], np.int64))
    ends = ((0, 16, 2), (16, 17, 2))
    parts = [net.add("Slice", turned, *(net.constant([n], np.int64) for n in numbers)) for numbers in ends]
    imported = import_model(net.model({"x": (1, 4, 8, 8)}, parts))
    wanted = {parts[0]: [RANDOM.normal(0, 40, (1, 64, 16))], parts[1]: [RANDOM.normal(-8, 6, (1, 64, 1))]}
    kinds = [kind_of(imported.model, imported.graph, name, wanted) for name in parts]
    assert kinds == ["numbers", "scores"]
    found = {parts[0]: [wanted[parts[0]][0].copy()], parts[1]: wanted[parts[1]]}
    found[parts[0]][0][0, wanted[parts[1]][0][0, :, 0] < -4] = 0.0  # anchors that see nothing may be anything
    assert max(entry.loss for entry in losses_of(imported.model, imported.graph, found, wanted)) == 0.0


def test_outputs_of_other_shapes_are_no_anchors() -> None:
    net = Net()
    maps = [net.add("Sigmoid", net.conv("x", 4, 6)), net.conv("x", 4, 30)]
    counts = dict(zip(maps, (6, 30), strict=True))
    wanted = {name: [np.abs(RANDOM.normal(0, 0.2, (1, count, 4, 4)))] for name, count in counts.items()}
    found = measured(net.model({"x": (1, 4, 4, 4)}, maps), wanted, wanted)
    assert [found[name].kind for name in maps] == ["scores", "numbers"]
    assert max(entry.loss for entry in found.values()) == 0.0


def test_numbers_that_overflow_are_lost() -> None:
    net = Net()
    out = net.conv("x", 4, 4)
    right = RANDOM.normal(0, 1, (1, 4, 2, 2))
    wrong = right.copy()
    wrong[0, 0, 0, 0] = np.inf
    assert measured(net.model({"x": (1, 4, 2, 2)}, [out]), {out: [right]}, {out: [wrong]})[out].loss == 1.0
