"""COCO: a JSON file with `images`, `annotations` and `categories`, and a folder of images.

The JSON may be given itself, or a folder that holds it (as `annotations/instances_val2017.json`, say). Images are
looked for in the usual places beside it. Classes are numbered by the order of the categories' ids.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.evaluate.datasets.files import inside, read_json
from openrknn.evaluate.errors import DatasetError
from openrknn.evaluate.truth import Dataset, ObjectTruth, Sample, Segment

_SPLITS = ("val2017", "val", "test", "train2017", "train")
_MOST_NUMBERS = 1_000_000
"""In one polygon; the largest of COCO has a few thousand."""


def is_coco(value: object) -> bool:
    """Whether JSON has the tables of COCO."""
    return isinstance(value, dict) and all(isinstance(value.get(key), list) for key in ("images", "annotations"))


def json_files(folder: Path) -> list[Path]:
    """Where COCO's files usually are: those of a validation set first, boxes before keypoints."""
    found = [*sorted((folder / "annotations").glob("*.json")), *sorted(folder.glob("*.json"))]
    return sorted(found, key=lambda path: (_rank(path, ("val", "test", "")), _rank(path, ("instances", "person", ""))))


def _rank(path: Path, words: Sequence[str]) -> int:
    return next(at for at, word in enumerate(words) if word in path.name)


def read_coco(path: Path, task: str | None) -> Dataset:
    """The dataset in a JSON file."""
    content = read_json(path)
    if not is_coco(content):
        raise DatasetError(f"{path}: not COCO: it needs the lists `images` and `annotations`")
    reader = _Reader(path, content)
    has_points = any(row.keypoints is not None for row in reader.truths.values())
    kind = "COCO keypoints" if has_points else "COCO instances"
    found = "pose" if has_points and task in (None, "pose") else "segment" if task == "segment" else "detect"
    return Dataset(path, kind, found, tuple(reader.samples), reader.names, notes=tuple(reader.notes))


class _Reader:
    def __init__(self, path: Path, content: Mapping[str, Any]) -> None:
        self.path = path
        self.notes: list[str] = []
        categories = self._categories(content.get("categories"), content["annotations"])
        self.names = tuple(name for _, name in categories)
        self._class = {number: at for at, (number, _) in enumerate(categories)}
        rows = self._by_image(content["annotations"])
        self.truths: dict[Any, ObjectTruth] = {}
        self.samples: list[Sample] = []
        if not content["images"]:
            raise self._wrong("it lists no images")
        images = [self._image(row, at) for at, row in enumerate(content["images"])]
        root = self._root([name for _, name in images])
        for number, name in images:
            truth = self._truth(rows.get(number, []))
            self.truths[number] = truth
            self.samples.append(Sample(name, truth, inside(root, name, str(self.path))))

    def _wrong(self, what: str) -> DatasetError:
        return DatasetError(f"{self.path}: {what}")

    def _categories(self, rows: object, annotations: Sequence[Any]) -> list[tuple[int, str]]:
        if not isinstance(rows, list) or not rows:
            numbers = {row.get("category_id") for row in annotations if isinstance(row, dict)}
            return [(number, f"class {number}") for number in sorted(n for n in numbers if isinstance(n, int))]
        found = {}
        for at, row in enumerate(rows):
            if not isinstance(row, dict) or not isinstance(row.get("id"), int) or not isinstance(row.get("name"), str):
                raise self._wrong(f"categories[{at}] needs a whole number `id` and a text `name`")
            found[row["id"]] = row["name"]
        if len(found) != len(rows):
            raise self._wrong("two categories have the same id")
        return sorted(found.items())

    def _image(self, row: Any, at: int) -> tuple[Any, str]:
        if not isinstance(row, dict) or not isinstance(row.get("id"), int | str) or not isinstance(
            row.get("file_name"), str
        ):
            raise self._wrong(f"images[{at}] needs an `id` and a text `file_name`")
        return row["id"], row["file_name"]

    def _by_image(self, rows: Sequence[Any]) -> dict[Any, list[tuple[int, Mapping[str, Any]]]]:
        found: dict[Any, list[tuple[int, Mapping[str, Any]]]] = defaultdict(list)
        for at, row in enumerate(rows):
            if not isinstance(row, dict) or row.get("category_id") not in self._class:
                raise self._wrong(f"annotations[{at}] has no `category_id` of the list `categories`")
            if not isinstance(row.get("image_id"), int | str):
                raise self._wrong(f"annotations[{at}] has no `image_id`")
            found[row["image_id"]].append((at, row))
        return found

    def _root(self, names: Sequence[str]) -> Path:
        """The folder that the names of files are relative to."""
        base = self.path.parent
        places = [base, base / "images", base.parent, base.parent / "images"]
        places += [parent / split for parent in (base, base.parent, base / "images", base.parent / "images")
                   for split in _SPLITS]  # fmt: skip
        probe = names[: 1 if len(names) < 8 else 8]
        found = [place for place in places if probe and all(inside(place, n, str(self.path)).is_file() for n in probe)]
        if found:
            return found[0]
        partly = [place for place in places if any(inside(place, n, str(self.path)).is_file() for n in names)]
        if partly:
            return partly[0]
        shown = ", ".join(dict.fromkeys(str(place) for place in places[:4]))
        raise self._wrong(
            f"the image {names[0] if names else ''!r} is in none of {shown} (nor in val2017, val, test, train there); "
            "put the images beside the JSON file, in a folder `images` or of the split's name"
        )

    def _truth(self, rows: Sequence[tuple[int, Mapping[str, Any]]]) -> ObjectTruth:
        boxes, classes, crowd, areas = [], [], [], []
        points: list[list[float]] = []
        segments: list[Segment] = []
        for at, row in rows:
            left, top, width, height = self._numbers(row.get("bbox"), f"annotations[{at}].bbox", 4)
            boxes.append((left, top, left + width, top + height))
            classes.append(self._class[row["category_id"]])
            crowd.append(bool(row.get("iscrowd", 0)))
            area = row.get("area", width * height)
            areas.append(self._numbers([area], f"annotations[{at}].area", 1)[0])
            if "keypoints" in row:
                points.append(self._numbers(row["keypoints"], f"annotations[{at}].keypoints", None))
            if row.get("segmentation"):
                segments.append(self._segment(row["segmentation"], at))
        keypoints = None
        if points and len(points) == len(boxes):
            lengths = {len(one) for one in points}
            if len(lengths) != 1 or lengths.pop() % 3:
                raise self._wrong("keypoints of one image have different lengths, or are not x, y, v")
            keypoints = np.array(points, np.float64).reshape(len(points), -1, 3)
        return ObjectTruth(
            boxes=np.array(boxes, np.float64).reshape(-1, 4),
            classes=np.array(classes, np.int64),
            crowd=np.array(crowd, np.bool_),
            areas=np.array(areas, np.float64),
            keypoints=keypoints,
            segments=segments if boxes and len(segments) == len(boxes) else None,
        )

    def _numbers(self, value: Any, where: str, count: int | None) -> list[float]:
        good = isinstance(value, list) and len(value) == (count if count is not None else len(value))
        good = good and len(value) <= _MOST_NUMBERS
        if not good or not all(isinstance(n, int | float) and math.isfinite(n) and abs(n) < 1e9 for n in value):
            raise self._wrong(f"{where} should be {count or 'a list of'} finite numbers")
        return [float(number) for number in value]

    def _segment(self, value: Any, at: int) -> Segment:
        where = f"annotations[{at}].segmentation"
        if isinstance(value, list):
            rings = [self._numbers(ring, where, None) for ring in value]
            if any(len(ring) < 6 or len(ring) % 2 for ring in rings):
                raise self._wrong(f"{where}: a polygon has at least three corners x, y")
            return rings
        size = value.get("size") if isinstance(value, dict) else None
        counts = value.get("counts") if isinstance(value, dict) else None
        if (
            not isinstance(size, list) or len(size) != 2
            or not all(isinstance(n, int) and 0 < n <= 65_536 for n in size)
            or not isinstance(counts, list | str)
        ):  # fmt: skip
            raise self._wrong(f"{where} is neither polygons nor run lengths (size, counts)")
        if isinstance(counts, list) and (
            not all(isinstance(n, int) and n >= 0 for n in counts) or sum(counts) != size[0] * size[1]
        ):
            raise self._wrong(f"{where}: the run lengths do not add up to {size[0]} x {size[1]} pixels")
        if isinstance(counts, str) and decoded_length(counts) != size[0] * size[1]:
            raise self._wrong(f"{where}: the run lengths do not add up to {size[0]} x {size[1]} pixels")
        return {"size": size, "counts": counts}


def decoded_length(text: str) -> int:
    """How many pixels COCO's compressed run lengths stand for; -1 where they are damaged.

    Six bits per character from '0' on: five of the number, the sixth says that it goes on. From the third run on the
    difference to the run before last is stored. pycocotools does not check any of it.
    """
    runs: list[int] = []
    value = shift = 0
    for letter in text:
        code = ord(letter) - 48
        if not 0 <= code < 64 or shift > 30:
            return -1
        value |= (code & 0x1F) << shift
        shift += 5
        if code & 0x20:
            continue
        if code & 0x10:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
        if runs[-1] < 0:
            return -1
        value = shift = 0
    return sum(runs) if shift == 0 else -1
