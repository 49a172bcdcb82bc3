"""Average precision as COCO defines it, computed by pycocotools itself.

Matching, areas, crowds and the twelve numbers are pycocotools'. Resampling for the confidence interval repeats only its
last step, the accumulation, on the matches that pycocotools made; `average_precision` is tested to be equal to it.
Oriented boxes take the overlap of their polygons in place of pycocotools' own.
"""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from openrknn.evaluate.errors import EvaluationError
from openrknn.evaluate.metrics.scores import Array, ClassScore, Curve, Scores
from openrknn.evaluate.truth import ObjectTruth
from openrknn.extras import how_to_install
from openrknn.vision.polygons import convex_overlap
from openrknn.vision.results import Objects

_RECALLS = np.linspace(0.0, 1.00, 101)
_PREFIX = {"bbox": "", "segm": "mask_", "keypoints": "pose_", "obb": "obb_"}
_STATS = {
    "bbox": ("map", "map50", "map75", "map_small", "map_medium", "map_large",
             "ar1", "ar10", "ar100", "ar_small", "ar_medium", "ar_large"),
    "segm": ("mask_map", "mask_map50", "mask_map75", "mask_map_small", "mask_map_medium", "mask_map_large"),
    "keypoints": ("pose_map", "pose_map50", "pose_map75", "pose_map_medium", "pose_map_large", "pose_ar20"),
    "obb": ("obb_map", "obb_map50", "obb_map75"),
}  # fmt: skip
_SHOWN_SCORE, _SHOWN_IOU = 0.25, 0.5
"""What counts as found where one image is judged, and what is drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Image:
    """One image: its size, what is there, and what was found."""

    width: int
    height: int
    truth: ObjectTruth
    """In pixels."""
    found: Objects
    """Classes are the dataset's; -1 is one that it does not have."""
    masks: Sequence[Any] = ()
    """Of `found`, as run lengths: see `run_lengths`."""


def pycocotools() -> tuple[Any, Any, Any]:
    """The modules coco, cocoeval and mask."""
    try:
        from pycocotools import coco, cocoeval, mask
    except ImportError:
        raise EvaluationError(f"average precision needs pycocotools; {how_to_install('evaluate')}") from None
    return coco, cocoeval, mask


def run_lengths(masks: Array) -> list[Any]:
    """[n, height, width] of booleans as COCO's run lengths: a hundredth of the memory."""
    if not len(masks):
        return []
    encoded: list[Any] = pycocotools()[2].encode(np.asfortranarray(masks.transpose(1, 2, 0).astype(np.uint8)))
    return encoded


def score_detection(images: Sequence[Image], names: Sequence[str], kind: str = "bbox") -> Scores:
    """`kind`: bbox, segm, keypoints or obb. `names` of the dataset's classes, by number."""
    evaluated = _evaluated(images, len(names), kind)
    prefix = _PREFIX[kind]
    values = {name: _known(stat) for name, stat in zip(_STATS[kind], _stats(evaluated, kind), strict=False)}
    precision = evaluated.eval["precision"]  # [iou, recall, class, area, detections]
    counts = [0] * len(names)
    for image in images:
        for number in image.truth.classes[~image.truth.crowd].tolist():
            counts[number] += 1
    rows, curves = [], []
    for number, name in enumerate(names):
        part = precision[:, :, number, 0, -1]
        more = {f"{prefix}map50": _mean(part[0]), f"{prefix}map75": _mean(part[5])}
        rows.append(ClassScore(name, counts[number], _mean(part), more))
        if counts[number]:
            curves.append(Curve(name, part[0]))
    seen = [curve.precision for curve in curves]
    mean = [Curve("all classes", np.mean(seen, axis=0))] if seen else []
    matches = _matches(evaluated, len(images))
    return Scores(
        primary=f"{prefix}map",
        values=values,
        classes=rows,
        qualities=np.array([image_quality(image) for image in images]),
        resample=partial(_resampled, matches),
        curves=[*mean, *curves],
    )


def _known(value: float) -> float | None:
    return float(value) if value > -1 else None


def _mean(part: Array) -> float | None:
    good = part[part > -1]
    return float(good.mean()) if good.size else None


def _evaluated(images: Sequence[Image], classes: int, kind: str) -> Any:
    coco, cocoeval, _ = pycocotools()
    truth, found = coco.COCO(), coco.COCO()
    truths = _truth_rows(images, kind)
    with contextlib.redirect_stdout(io.StringIO()):  # pycocotools reports each step
        _fill(truth, images, classes, truths)
        _fill(found, images, classes, _found_rows(images, kind, truths))
        evaluation = cocoeval.COCOeval(truth, found, "bbox" if kind == "obb" else kind)
        if kind == "obb":
            evaluation.computeIoU = partial(_oriented, evaluation)
        if kind == "keypoints":
            points = next((len(row["keypoints"]) // 3 for row in truths), 17)
            if points != len(evaluation.params.kpt_oks_sigmas):  # as Ultralytics does for other skeletons
                evaluation.params.kpt_oks_sigmas = np.full(points, 1 / points)
        evaluation.evaluate()
        evaluation.accumulate()
        if kind != "obb":
            evaluation.summarize()
    return evaluation


def _stats(evaluation: Any, kind: str) -> list[float]:
    if kind == "obb":
        precision = evaluation.eval["precision"][:, :, :, 0, -1]
        return [value if (value := _mean(part)) is not None else -1.0 for part in
                (precision, precision[0], precision[5])]  # fmt: skip
    stats = [float(value) for value in evaluation.stats]
    return stats


def _fill(into: Any, images: Sequence[Image], classes: int, rows: list[dict[str, Any]]) -> None:
    into.dataset = {
        "images": [{"id": at, "width": image.width, "height": image.height} for at, image in enumerate(images)],
        "categories": [{"id": number, "name": str(number)} for number in range(classes)],
        "annotations": rows,
    }
    into.createIndex()


def _truth_rows(images: Sequence[Image], kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for at, image in enumerate(images):
        truth = image.truth
        areas = truth.box_areas()
        for row in range(len(truth)):
            left, top, right, bottom = truth.boxes[row].tolist()
            entry: dict[str, Any] = {
                "id": len(rows) + 1,  # 0 would read as "not matched"
                "image_id": at,
                "category_id": int(truth.classes[row]),
                "bbox": [left, top, right - left, bottom - top],
                "area": float(areas[row]),
                "iscrowd": int(truth.crowd[row]),
            }
            if kind == "segm" and truth.segments is not None:
                entry["segmentation"] = truth.segments[row]
            if kind == "keypoints" and truth.keypoints is not None:
                points = truth.keypoints[row]
                entry["keypoints"] = points.reshape(-1).tolist()
                entry["num_keypoints"] = int(np.count_nonzero(points[:, 2] > 0))
            if kind == "obb" and truth.corners is not None:
                entry["corners"] = truth.corners[row]
            rows.append(entry)
    return rows


def _found_rows(images: Sequence[Image], kind: str, truths: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    mask = pycocotools()[2]
    for at, image in enumerate(images):
        found = image.found
        for row in range(len(found)):
            if found.classes[row] < 0:
                continue
            left, top, right, bottom = found.boxes[row].astype(np.float64).tolist()
            entry: dict[str, Any] = {
                "id": len(rows) + 1,
                "image_id": at,
                "category_id": int(found.classes[row]),
                "bbox": [left, top, right - left, bottom - top],
                "area": (right - left) * (bottom - top),
                "score": float(found.scores[row]),
                "iscrowd": 0,
            }
            if kind == "segm":
                entry["segmentation"] = image.masks[row]
                entry["area"] = float(mask.area(image.masks[row]))
            if kind == "keypoints" and found.keypoints is not None:
                points = found.keypoints[row].astype(np.float64)
                entry["keypoints"] = points.reshape(-1).tolist()
                low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
                entry["area"] = float(np.prod(high - low))
            if kind == "obb" and found.corners is not None:
                entry["corners"] = found.corners[row]
            rows.append(entry)
    return rows


def _oriented(evaluation: Any, image: int, category: int) -> Any:
    """[found, truth] of IoU, the best detections first, as `COCOeval.computeIoU` gives it."""
    truth, found = evaluation._gts[image, category], evaluation._dts[image, category]
    if not truth and not found:
        return []
    order = np.argsort([-row["score"] for row in found], kind="mergesort")
    best = [found[at] for at in order][: evaluation.params.maxDets[-1]]
    result = np.zeros((len(best), len(truth)))
    for row, one in enumerate(best):
        for column, other in enumerate(truth):
            if _meet(one["corners"], other["corners"]):
                result[row, column] = convex_overlap(one["corners"], other["corners"])
    return result


def _meet(one: Array, other: Array) -> bool:
    return bool((one.min(axis=0) < other.max(axis=0)).all() and (other.min(axis=0) < one.max(axis=0)).all())


# -- resampling ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """The detections of one class, the best first, with what pycocotools matched them to."""

    images: Array
    """[n]: of which image."""
    hits: Array
    """[10, n] of bool, by IoU: matched to an object."""
    misses: Array
    """[10, n] of bool: matched to nothing; neither where it is ignored."""
    objects: Array
    """[images]: objects of the class."""


def _matches(evaluation: Any, count: int) -> list[Matches]:
    per_class = len(evaluation.params.areaRng) * count
    found = []
    for number in range(len(evaluation.params.catIds)):
        parts = evaluation.evalImgs[number * per_class : number * per_class + count]
        objects = np.zeros(count)
        scores, owners, hits, misses = [], [], [], []
        for at, part in enumerate(parts):
            if part is None:
                continue
            objects[at] = np.count_nonzero(np.asarray(part["gtIgnore"]) == 0)
            scores.append(np.asarray(part["dtScores"]))
            owners.append(np.full(len(part["dtScores"]), at))
            counted = ~part["dtIgnore"].astype(bool)
            hits.append((part["dtMatches"] > 0) & counted)
            misses.append((part["dtMatches"] == 0) & counted)
        if not objects.any():
            continue
        order = np.argsort(-np.concatenate(scores), kind="mergesort")
        hit = np.concatenate(hits, axis=1)[:, order]
        miss = np.concatenate(misses, axis=1)[:, order]
        # After the last hit at any IoU recall does not grow, and precision at a recall is the best from there on.
        last = int(np.flatnonzero(hit.any(axis=0))[-1]) + 1 if hit.any() else 0
        found.append(Matches(np.concatenate(owners)[order][:last], hit[:, :last], miss[:, :last], objects))
    return found


def average_precision(matches: Matches, weights: Array) -> float | None:
    """Of one class over all IoU, with each image counted `weights` times; None without objects.

    Precision at each of 101 recalls is the best at that recall or a higher one; the mean of them is the result.
    """
    objects = float(matches.objects @ weights)
    if not objects:
        return None
    weight = weights[matches.images].astype(np.float64)
    hits = np.cumsum(matches.hits * weight, axis=1)
    misses = np.cumsum(matches.misses * weight, axis=1)
    precision = hits / (hits + misses + np.spacing(1))
    precision = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    total = 0.0
    for row in range(len(hits)):
        places = np.searchsorted(hits[row] / objects, _RECALLS, side="left")
        inside = places < hits.shape[1]
        total += float(precision[row, places[inside]].sum())
    return total / (len(_RECALLS) * len(hits))


def _resampled(matches: Sequence[Matches], weights: Array) -> Array:
    result = np.full(len(weights), np.nan)
    for row, one in enumerate(weights):
        values = [average_precision(entry, one) for entry in matches]
        known = [value for value in values if value is not None]
        if known:
            result[row] = float(np.mean(known))
    return result


# -- one image -------------------------------------------------------------------------------------------------------


def shown_objects(found: Objects) -> Objects:
    """What a user would see: scores of at least 0.25."""
    return found.take(np.flatnonzero((found.scores >= _SHOWN_SCORE) & (found.classes >= 0)))


def errors_in_words(image: Image, names: Sequence[str]) -> str:
    """ "missed: 2 tie; wrong: 1 car"; nothing where all is right."""
    shown = shown_objects(image.found)
    _, wrong, missed = judge_image(image.truth, shown)
    parts = (("missed", image.truth.classes[missed]), ("wrong", shown.classes[wrong]))
    return "; ".join(
        f"{title}: " + ", ".join(f"{count} {names[number]}" for number, count in Counter(rows.tolist()).most_common())
        for title, rows in parts
        if len(rows)
    )


def image_quality(image: Image) -> float:
    """F1 of one image at IoU 0.50 and a score of 0.25: 1 where everything was found and nothing else."""
    hit, wrong, missed = judge_image(image.truth, shown_objects(image.found))
    total = 2 * len(hit) + len(wrong) + len(missed)
    return 2 * len(hit) / total if total else 1.0


def judge_image(truth: ObjectTruth, found: Objects) -> tuple[list[int], list[int], list[int]]:
    """Detections that are right and wrong, and objects that were missed (crowds are neither)."""
    free = [row for row in range(len(truth)) if not truth.crowd[row]]
    crowds = [row for row in range(len(truth)) if truth.crowd[row]]
    right, wrong = [], []
    for row in np.argsort(-found.scores, kind="stable").tolist():
        overlaps = [(_overlap(found, row, truth, at), at) for at in free if truth.classes[at] == found.classes[row]]
        best = max(overlaps, default=(0.0, -1))
        if best[0] >= _SHOWN_IOU:
            right.append(row)
            free.remove(best[1])
        elif not any(_inside(found.boxes[row], truth.boxes[at]) >= _SHOWN_IOU for at in crowds
                     if truth.classes[at] == found.classes[row]):  # fmt: skip
            wrong.append(row)
    return right, wrong, free


def _overlap(found: Objects, row: int, truth: ObjectTruth, at: int) -> float:
    if found.corners is not None and truth.corners is not None:
        return convex_overlap(found.corners[row], truth.corners[at])
    one, other = found.boxes[row].astype(np.float64), truth.boxes[at]
    common = _common(one, other)
    together = float(np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2])) - common
    return common / together if together > 0 else 0.0


def _inside(box: Array, crowd: Array) -> float:
    size = float(np.prod(box[2:] - box[:2]))
    return _common(box, crowd) / size if size > 0 else 0.0


def _common(one: Array, other: Array) -> float:
    return float(np.prod(np.maximum(np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2]), 0)))
