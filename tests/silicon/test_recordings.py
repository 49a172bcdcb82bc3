"""The software NPU says what boards said.

The post-processing is OpenCV's, as in the programs that printed the answers; it shares no code with `openrknn.vision`.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.silicon.recordings import Array, Picture, answer, board_says, recording

cv2: Any = pytest.importorskip("cv2", reason="the extra 'video' (OpenCV) is not installed")

PLATE = "湘F6CL03"
LETTERS = (
    "京沪津渝冀晋蒙辽吉黑苏浙皖闽赣鲁豫鄂湘粤桂琼川贵云藏陕甘青宁新"
    "0123456789ABCDEFGHJKLMNPQRSTUVWXYZIO-"
)
"""The classes of LPRNet; the last one is the blank."""
FACE_SIDE = 320
ANCHORS = ((8, (16, 32)), (16, (64, 128)), (32, (256, 512)))


def picture(name: str) -> Picture:
    """BGR."""
    pixels: Picture = cv2.imread(str(recording(name)))
    return pixels


def text_scores(probabilities: Array) -> list[float]:
    """The mean probability inside each outline of text, as the demo prints it."""
    mask = ((probabilities * 255).astype(np.uint8) > 0.3 * 255).astype(np.uint8)
    outlines, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    scores = []
    for outline in outlines:
        polygon = cv2.approxPolyDP(outline, 0.002 * cv2.arcLength(outline, True), True)
        if len(polygon) < 4:
            continue
        inside = np.zeros(probabilities.shape, np.uint8)
        cv2.fillPoly(inside, [polygon], 1)
        score = cv2.mean(probabilities, inside)[0]
        if score >= 0.6:
            scores.append(score)
    return scores


def test_ppocr_detection_on_an_rk3588_to_the_last_digit() -> None:
    """Rules: tables floor, and the output converter rounds once. Either one alone gives none of the scores."""
    said = board_says("ppocrv4_det_rk3588.board.json")
    page = cv2.resize(picture("ppocr-det-test.png"), (480, 480), interpolation=cv2.INTER_AREA)
    (probabilities,) = answer("ppocrv4_det-rk3588.rknn", page[None])
    ours = sorted(f"{score:.6f}" for score in text_scores(probabilities.reshape(480, 480)))
    assert ours == sorted(f"{row['score']:.6f}" for row in said["rows"])


@pytest.mark.parametrize("model", ["lprnet-rk3588.rknn", "lprnet-rk3588-toolkit1.6.rknn", "lprnet-rk3566.rknn"])
def test_lprnet_reads_the_plate(model: str) -> None:
    """Rules: the shift of a leaky stage, lane transposes over whole streams, a stride of 0."""
    (scores,) = answer(model, picture("lplate.jpg")[None])
    best = scores.reshape(len(LETTERS), -1).argmax(0).tolist()
    blank = len(LETTERS) - 1
    read = [now for before, now in zip([blank, *best], best, strict=False) if now not in {before, blank}]
    assert "".join(LETTERS[letter] for letter in read) == PLATE


def faces(places: Array, scores: Array, factor: float) -> list[list[int]]:
    """Boxes of RetinaFace, best first, without those that overlap a better one by 0.4."""
    anchors = np.array(
        [
            ((column + 0.5) * step, (row + 0.5) * step, size)
            for step, sizes in ANCHORS
            for row, column in product(range(FACE_SIDE // step), repeat=2)
            for size in sizes
        ]
    )
    centres = anchors[:, :2] + places[:, :2] * 0.1 * anchors[:, 2:]
    sizes = anchors[:, 2:] * np.exp(places[:, 2:] * 0.2)
    corners = np.concatenate([centres - sizes / 2, centres + sizes / 2], 1) * factor
    order = [int(at) for at in np.argsort(-scores, kind="stable") if scores[at] > 0.5]
    kept: list[int] = []
    for at in order:
        if all(overlap(corners[at], corners[other]) <= 0.4 for other in kept):
            kept.append(at)
    return [np.trunc(corners[at]).astype(int).tolist() for at in kept]


def overlap(a: Array, b: Array) -> float:
    """The common area by the joint area."""
    common = np.prod(np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0))
    areas = [np.prod(box[2:] - box[:2]) for box in (a, b)]
    return float(common / (sum(areas) - common))


def test_retinaface_finds_the_faces_where_the_board_finds_them() -> None:
    """Rule: the shift of a leaky stage. The board ran the same network compiled for RK3588: two boxes may differ."""
    said = board_says("retinaface_rk3566.board.json")
    photo = picture("face.jpg")
    small = cv2.resize(photo, (FACE_SIDE, FACE_SIDE), interpolation=cv2.INTER_AREA)
    rgb = np.ascontiguousarray(small[..., ::-1])
    places, scores, _ = answer("retinaface-320-rk3566.rknn", rgb[None])
    found = faces(places[0], scores[0, :, 1], photo.shape[0] / FACE_SIDE)
    boxes = [row["box"] for row in said["rows"]]
    assert len(found) == len(boxes)
    assert sum(box in found for box in boxes) >= 7
    for box in boxes:
        assert min(np.abs(np.subtract(box, other)).max() for other in found) <= 5
