"""Average precision: equal to pycocotools fed with COCO's own files, and to answers that can be worked out by hand."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from openrknn.evaluate.datasets.coco import decoded_length, read_coco
from openrknn.evaluate.metrics.detection import (
    Image,
    average_precision,
    image_quality,
    run_lengths,
    score_detection,
)
from openrknn.evaluate.metrics.scores import interval, weights_for
from openrknn.evaluate.truth import ObjectTruth
from openrknn.vision.results import Objects

SIZE = 200
POINTS = 17


def boxes(random: np.random.Generator, count: int) -> Any:
    """[n, 4] of which some are small, some medium, some large."""
    size = random.choice([12, 50, 130], (count, 1)) * random.uniform(0.6, 1.4, (count, 2))
    start = random.uniform(0, SIZE - 20, (count, 2))
    return np.concatenate([start, np.minimum(start + size, SIZE)], axis=1)


def scene(seed: int, images: int = 6, classes: int = 3) -> tuple[list[ObjectTruth], list[Objects]]:
    """Objects with crowds; detections that are near, far, doubled, and of the wrong class."""
    random = np.random.default_rng(seed)
    truths, found = [], []
    for _ in range(images):
        count = int(random.integers(0, 9))
        places = boxes(random, count)
        kinds = random.integers(0, classes, count)
        areas = np.prod(places[:, 2:] - places[:, :2], axis=1) * random.uniform(0.5, 1, count)
        points = np.concatenate(
            [random.uniform(0, SIZE, (count, POINTS, 2)), random.integers(0, 3, (count, POINTS, 1))], axis=2
        )
        points[random.random(count) < 0.2, :, 2] = 0  # without labelled points: ignored
        truths.append(ObjectTruth(places, kinds, random.random(count) < 0.15, areas, keypoints=points))
        again = np.concatenate([places + random.normal(0, 6, places.shape), places, boxes(random, 6)])
        again = np.sort(np.clip(again, 0, SIZE).reshape(-1, 2, 2), axis=1).reshape(-1, 4)
        moved = np.concatenate([points + random.normal(0, 4, points.shape), points,
                                random.uniform(0, SIZE, (6, POINTS, 3))])  # fmt: skip
        labels = np.concatenate([kinds, kinds, random.integers(0, classes, 6)])
        labels[random.random(len(labels)) < 0.1] = 0
        scores = np.round(random.random(len(again)), 1)  # with ties
        found.append(
            Objects(again.astype(np.float32), scores.astype(np.float32), labels, keypoints=moved.astype(np.float32))
        )
    return truths, found


def by_pycocotools(truths: list[ObjectTruth], found: list[Objects], kind: str, classes: int, folder: Path) -> Any:
    """As users of pycocotools do it: files, `loadRes`, `COCOeval`."""
    annotations: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for at, (truth, objects) in enumerate(zip(truths, found, strict=True)):
        for row in range(len(truth)):
            left, top, right, bottom = truth.boxes[row].tolist()
            points = truth.keypoints[row]  # type: ignore[index]
            annotations.append({
                "id": len(annotations) + 1, "image_id": at, "category_id": int(truth.classes[row]),
                "bbox": [left, top, right - left, bottom - top], "area": float(truth.areas[row]),  # type: ignore[index]
                "iscrowd": int(truth.crowd[row]), "segmentation": corners(truth.boxes[row]),
                "keypoints": points.reshape(-1).tolist(), "num_keypoints": int((points[:, 2] > 0).sum()),
            })  # fmt: skip
        for row in range(len(objects)):
            left, top, right, bottom = objects.boxes[row].astype(float).tolist()
            entry: dict[str, Any] = {
                "image_id": at, "category_id": int(objects.classes[row]), "score": float(objects.scores[row]),
            }  # fmt: skip
            if kind == "bbox":
                entry["bbox"] = [left, top, right - left, bottom - top]
            elif kind == "segm":
                (rle,) = run_lengths(filled(objects.boxes[row])[None])
                entry["segmentation"] = {"size": rle["size"], "counts": rle["counts"].decode()}
            else:
                entry["keypoints"] = objects.keypoints[row].reshape(-1).tolist()  # type: ignore[index]
            results.append(entry)
    images = [{"id": at, "width": SIZE, "height": SIZE, "file_name": f"{at}.png"} for at in range(len(truths))]
    content = {"images": images, "annotations": annotations,
               "categories": [{"id": number, "name": str(number)} for number in range(classes)]}  # fmt: skip
    (folder / "truth.json").write_text(json.dumps(content))
    with contextlib.redirect_stdout(io.StringIO()):
        truth_set = COCO(str(folder / "truth.json"))
        evaluation = COCOeval(truth_set, truth_set.loadRes(results), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation


def corners(box: Any) -> list[list[float]]:
    left, top, right, bottom = box.tolist()
    return [[left, top, right, top, right, bottom, left, bottom]]


def filled(box: Any) -> Any:
    mask = np.zeros((SIZE, SIZE), bool)
    left, top, right, bottom = np.round(box).astype(int)
    mask[top:bottom, left:right] = True
    return mask


def scored(truths: list[ObjectTruth], found: list[Objects], kind: str, classes: int = 3) -> Any:
    images = []
    for truth, objects in zip(truths, found, strict=True):
        masks = run_lengths(np.array([filled(box) for box in objects.boxes])) if kind == "segm" else ()
        whole = ObjectTruth(truth.boxes, truth.classes, truth.crowd, truth.areas, keypoints=truth.keypoints,
                            segments=[corners(box) for box in truth.boxes])  # fmt: skip
        images.append(Image(SIZE, SIZE, whole, objects, masks))
    return score_detection(images, [str(number) for number in range(classes)], kind)


@pytest.mark.parametrize("kind", ["bbox", "segm", "keypoints"])
@pytest.mark.parametrize("seed", range(4))
def test_all_numbers_are_those_of_pycocotools(kind: str, seed: int, tmp_path: Path) -> None:
    truths, found = scene(seed)
    reference = by_pycocotools(truths, found, kind, 3, tmp_path)
    ours = scored(truths, found, kind)
    for name, expected in zip(ours.values, reference.stats, strict=False):
        value = ours.values[name]
        assert (-1 if value is None else value) == pytest.approx(expected, abs=1e-9), name
    precision = reference.eval["precision"]
    for number, row in enumerate(ours.classes):
        part = precision[:, :, number, 0, -1]
        assert row.value == (pytest.approx(part[part > -1].mean()) if (part > -1).any() else None)


@pytest.mark.parametrize("seed", range(12))
def test_the_accumulation_of_resamples_is_that_of_pycocotools(seed: int) -> None:
    truths, found = scene(100 + seed, images=8)
    ours = scored(truths, found, "bbox")
    assert ours.resample(np.ones((1, 8), np.int64))[0] == pytest.approx(ours.value, abs=1e-9)


def test_a_resample_is_a_dataset_with_repeated_images() -> None:
    truths, found = scene(7, images=5)
    for objects in found:  # without ties, whose order is that of the images
        objects.scores[:] = np.random.default_rng(len(objects)).random(len(objects))
    weights = np.array([2, 0, 1, 3, 0])
    chosen = [at for at, count in enumerate(weights) for _ in range(count)]
    repeated = scored([truths[at] for at in chosen], [found[at] for at in chosen], "bbox")
    assert scored(truths, found, "bbox").resample(weights[None])[0] == pytest.approx(repeated.value, abs=1e-9)


def one(truth: list[list[float]], found: list[list[float]], scores: list[float]) -> Image:
    places, boxes_found = np.array(truth, float).reshape(-1, 4), np.array(found, np.float32).reshape(-1, 4)
    return Image(
        SIZE, SIZE,
        ObjectTruth(places, np.zeros(len(places), np.int64), np.zeros(len(places), bool)),
        Objects(boxes_found, np.array(scores, np.float32), np.zeros(len(boxes_found), np.int64)),
    )  # fmt: skip


def test_known_answers() -> None:
    box, far = [10.0, 10, 50, 50], [100.0, 100, 150, 150]
    assert score_detection([one([box], [box], [0.9])], ["a"]).value == pytest.approx(1)
    assert score_detection([one([box], [], [])], ["a"]).value == pytest.approx(0)
    # A better detection on nothing: precision is one half at every recall.
    assert score_detection([one([box], [far, box], [0.9, 0.8])], ["a"]).value == pytest.approx(0.5)
    # One of two objects: precision one up to a recall of 0.5, which is 51 of 101 points.
    assert score_detection([one([box, far], [box], [0.9])], ["a"]).value == pytest.approx(51 / 101)
    # 10 % too wide: IoU 1 / 1.1 = 0.909, right for nine of ten thresholds.
    wide = [10.0, 10, 54, 50]
    assert score_detection([one([box], [wide], [0.9])], ["a"]).value == pytest.approx(0.9)
    assert score_detection([], ["a"]).value is None


def test_a_class_that_the_dataset_lacks_is_left_out() -> None:
    box = [10.0, 10, 50, 50]
    image = one([box], [box, box], [0.8, 0.9])
    image.found.classes[1] = -1
    assert score_detection([image], ["a"]).value == pytest.approx(1)


def test_oriented_boxes_are_measured_by_their_polygons() -> None:
    def turned(angle: float) -> Any:
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        return np.array([[-40.0, -10], [40, -10], [40, 10], [-40, 10]]) @ turn.T + 100

    def image(angle: float) -> Image:
        wanted, got = turned(0.5), turned(angle)
        around = [np.concatenate([part.min(axis=0), part.max(axis=0)])[None] for part in (wanted, got)]
        return Image(
            SIZE, SIZE,
            ObjectTruth(around[0], np.zeros(1, np.int64), np.zeros(1, bool), corners=wanted[None]),
            Objects(around[1].astype(np.float32), np.ones(1, np.float32), np.zeros(1, np.int64),
                    corners=got[None].astype(np.float32)),
        )  # fmt: skip

    assert score_detection([image(0.5)], ["a"], "obb").value == pytest.approx(1)
    across = score_detection([image(0.5 + np.pi / 2)], ["a"], "obb")  # crossed: IoU 400 / 2800
    assert across.value == 0
    assert image_quality(image(0.5)) == 1
    assert image_quality(image(0.5 + np.pi / 2)) == 0


def test_an_interval_contains_what_was_measured_and_is_repeatable() -> None:
    truths, found = scene(3, images=20)
    ours = scored(truths, found, "bbox")
    assert ours.value is not None
    low, high = interval(ours.resample(weights_for(20)), ours.value) or (0, 0)
    assert low < ours.value < high
    assert interval(ours.resample(weights_for(20)), ours.value) == (low, high)


def test_compressed_run_lengths_are_checked() -> None:
    for seed in range(20):
        mask = np.random.default_rng(seed).random((seed + 3, 40)) < seed / 20
        (rle,) = run_lengths(mask[None])
        assert decoded_length(rle["counts"].decode()) == mask.size
    assert decoded_length("") == 0
    assert decoded_length("`") == -1
    assert decoded_length("\x01") == -1


def test_one_reader_serves_instances_and_keypoints(tmp_path: Path) -> None:
    truths, found = scene(1)
    by_pycocotools(truths, found, "bbox", 3, tmp_path)
    for at in range(len(truths)):
        (tmp_path / f"{at}.png").write_bytes(b"")
    dataset = read_coco(tmp_path / "truth.json", "pose")
    assert (dataset.kind, dataset.task, dataset.names) == ("COCO keypoints", "pose", ("0", "1", "2"))
    for sample, truth in zip(dataset.samples, truths, strict=True):
        assert isinstance(sample.truth, ObjectTruth)
        assert np.allclose(sample.truth.boxes, truth.boxes)
        assert (sample.truth.crowd == truth.crowd).all()


def test_average_precision_without_objects_is_none() -> None:
    truths, found = scene(2)
    from openrknn.evaluate.metrics.detection import _evaluated, _matches

    evaluated = _evaluated([Image(SIZE, SIZE, t, f) for t, f in zip(truths, found, strict=True)], 3, "bbox")
    matches = _matches(evaluated, len(truths))
    assert average_precision(matches[0], np.zeros(len(truths))) is None
