"""YOLO: images/ and labels/ with one text file per image, and perhaps a data.yaml.

A line of a label is a class and numbers that are parts of the image (0 to 1):

    class x y w h                               detect: centre and size
    class x y w h, then x y [v] per point       pose: `kpt_shape` of data.yaml says how many
    class x1 y1 x2 y2 x3 y3 x4 y4               obb: four corners; for a segmenter a polygon of four corners
    class x1 y1 x2 y2 ... (three or more)       segment: a polygon

An image without a label file has no objects.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.evaluate.datasets.files import images_in, inside, is_image, name_in, read_text
from openrknn.evaluate.errors import DatasetError
from openrknn.evaluate.truth import Dataset, ObjectTruth, Sample, Segment
from openrknn.extras import how_to_install

_SPLITS = ("val", "test", "train")
_LARGEST_YAML, _LARGEST_LABEL, _MOST_NAMES = 4 << 20, 64 << 20, 65_536
_SLACK = 0.01
"""So much may a coordinate lie outside of the image: exporters round."""


def data_yaml(folder: Path) -> Path | None:
    """The dataset's description in a folder, if there is one that names images."""
    others = [path for suffix in ("*.yaml", "*.yml") for path in sorted(folder.glob(suffix))]
    known = [folder / "data.yaml", folder / "dataset.yaml", *others]
    return next((path for path in known if path.is_file()), None)


def read_yaml(path: Path, task: str | None) -> Dataset:
    """A data.yaml and what it names."""
    content = _yaml(path)
    root = path.parent
    if isinstance(content.get("path"), str) and content["path"]:
        base = Path(content["path"])
        # Ultralytics writes paths of another machine or of its folder for datasets: where those are not, data.yaml's
        # own folder counts.
        root = base if base.is_dir() else root / base if (root / base).is_dir() else root
    splits = [(split, content.get(split)) for split in _SPLITS if content.get(split)]
    if not splits:
        raise DatasetError(f"{path}: it names no images; `val:` has to be a folder or a list of images")
    for _, value in splits:
        images = _split_images(root, value, path)
        if images:
            names, points = _names(content.get("names"), path), _points(content.get("kpt_shape"), path)
            return _dataset(path, root, images, task, names=names, points=points)
    tried = ", ".join(f"{split}: {value}" for split, value in splits)
    raise DatasetError(f"{path}: no images in {tried} (relative to {root})")


def read_folder(folder: Path, task: str | None) -> Dataset | None:
    """images/ and labels/ without a data.yaml, or labels beside the images; None where that is not what is there."""
    has_folders = (folder / "images").is_dir() and (folder / "labels").is_dir()
    images = images_in(folder / "images" if has_folders else folder)
    labels = [label_of(path) for path in images]
    present = [path for path in labels if path.is_file()]
    if not present or not all(_looks_like_label(path) for path in present[:20]):
        return None
    return _dataset(folder, folder, images, task)


def label_of(image: Path) -> Path:
    """images/ becomes labels/ (the last one in the path), and the suffix .txt."""
    parts = list(image.parts)
    for at in range(len(parts) - 2, -1, -1):
        if parts[at] == "images":
            parts[at] = "labels"
            break
    return Path(*parts).with_suffix(".txt")


def _looks_like_label(path: Path) -> bool:
    lines = [line.split() for line in read_text(path, _LARGEST_LABEL).splitlines()[:20] if line.strip()]
    return all(len(words) >= 5 and words[0].isdigit() and all(map(_is_number, words)) for words in lines)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _yaml(path: Path) -> Mapping[str, Any]:
    try:
        import yaml
    except ImportError:
        raise DatasetError(f"{path}: reading YAML needs PyYAML; {how_to_install('evaluate')}") from None
    try:
        content = yaml.safe_load(read_text(path, _LARGEST_YAML))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DatasetError(f"{path}: not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(content, dict):
        raise DatasetError(f"{path}: it should have the keys `val` and `names`")
    return content


def _split_images(root: Path, value: Any, path: Path) -> list[Path]:
    found: list[Path] = []
    for entry in value if isinstance(value, list) else [value]:
        if not isinstance(entry, str):
            raise DatasetError(f"{path}: {entry!r:.60} is not a folder or a list of images")
        place = root / entry
        if not place.exists() and entry.startswith("../"):  # Roboflow's exports are wrong by one folder
            place = root / entry.removeprefix("../")
        if place.is_dir():
            found += images_in(place)
        elif place.is_file():
            lines = (line.strip() for line in read_text(place).splitlines())
            found += [_listed(root, place, line) for line in lines if line and is_image(line)]
    return found


def _listed(root: Path, place: Path, line: str) -> Path:
    given = Path(line)
    if given.is_absolute() and given.is_file():
        return given
    name = line.removeprefix("./")
    found = (base / name for base in (root, place.parent) if (base / name).is_file())
    return next(found, inside(root, name, str(place)))


def _names(value: Any, path: Path) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, dict) and set(value) == set(range(len(value))):
        value = [value[at] for at in range(len(value))]
    if not isinstance(value, list) or len(value) > _MOST_NAMES:
        raise DatasetError(f"{path}: `names` should be a list of names, or numbers from 0 with names")
    return tuple(str(name)[:256] for name in value)


def _points(value: Any, path: Path) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(n, int) for n in value):
        raise DatasetError(f"{path}: `kpt_shape` should be [points, 2 or 3]")
    count, size = value
    if not 1 <= count <= 1000 or size not in (2, 3):
        raise DatasetError(f"{path}: `kpt_shape` should be [points, 2 or 3], not {value}")
    return count, size


def _dataset(
    path: Path, root: Path, images: Sequence[Path], task: str | None, *, names: tuple[str, ...] | None = None,
    points: tuple[int, int] | None = None,
) -> Dataset:  # fmt: skip
    texts = [_rows(label_of(image)) for image in images]
    lengths = {len(row) for rows in texts for row in rows}
    kind = _kind(lengths, points, task)
    samples = tuple(
        Sample(name_in(root, image), _truth(rows, kind, points, label_of(image), names), image)
        for image, rows in zip(images, texts, strict=True)
    )
    if not any(texts):
        raise DatasetError(
            f"{path}: none of {len(images)} images has a label; labels of images/x.jpg are looked for in labels/x.txt"
        )
    return Dataset(path, "YOLO labels", kind, samples, names)


def _rows(path: Path) -> list[list[float]]:
    if not path.is_file():
        return []
    rows = []
    for number, line in enumerate(read_text(path, _LARGEST_LABEL).splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if len(words) < 5 or not all(map(_is_number, words)) or float(words[0]) % 1 or float(words[0]) < 0:
            raise DatasetError(f"{path}: line {number}: {line!r:.80} is not a class and at least four numbers")
        rows.append([float(word) for word in words])
    return rows


def _kind(lengths: Iterable[int], points: tuple[int, int] | None, task: str | None) -> str:
    if points is not None:
        return "pose"
    found = set(lengths)
    if found <= {5}:
        return "detect"
    return "obb" if found <= {9} and task != "segment" else "segment"


def _truth(
    rows: Sequence[Sequence[float]], kind: str, points: tuple[int, int] | None, path: Path, names: Sequence[str] | None
) -> ObjectTruth:
    boxes, corners, keypoints = [], [], []
    segments: list[Segment] = []
    for number, row in enumerate(rows, 1):
        values = np.array(row[1:], np.float64)
        if names is not None and row[0] >= len(names):
            raise DatasetError(f"{path}: line {number}: class {row[0]:g}, and there are {len(names)} names")
        places = values[:4] if kind in ("detect", "pose") else values
        if places.min() < -_SLACK or places.max() > 1 + _SLACK:
            raise DatasetError(
                f"{path}: line {number}: coordinates are parts of the image, from 0 to 1, not {places.max():g}"
            )
        if kind in ("detect", "pose") or (kind == "segment" and len(values) == 4):
            centre, half = values[:2], values[2:4] / 2
            boxes.append(np.concatenate([centre - half, centre + half]))
            low, high = centre - half, centre + half
            segments.append([[low[0], low[1], high[0], low[1], high[0], high[1], low[0], high[1]]])
        else:
            if len(values) % 2 or len(values) < 6:
                raise DatasetError(f"{path}: line {number}: a polygon has pairs x y, at least three")
            around = values.reshape(-1, 2)
            boxes.append(np.concatenate([around.min(axis=0), around.max(axis=0)]))
            segments.append([values.tolist()])
            if kind == "obb":
                corners.append(around)
        if kind == "pose" and points is not None:
            keypoints.append(_keypoints(values[4:], points, path, number))
    return ObjectTruth(
        boxes=np.array(boxes, np.float64).reshape(-1, 4),
        classes=np.array([row[0] for row in rows], np.int64),
        crowd=np.zeros(len(rows), np.bool_),
        corners=np.array(corners).reshape(-1, 4, 2) if kind == "obb" else None,
        keypoints=np.array(keypoints).reshape(len(rows), -1, 3) if kind == "pose" and rows else None,
        segments=segments if kind == "segment" else None,
        is_relative=True,
    )


def _keypoints(values: Any, points: tuple[int, int], path: Path, number: int) -> Any:
    count, size = points
    if len(values) != count * size:
        raise DatasetError(f"{path}: line {number}: {len(values)} numbers of key points; kpt_shape is {list(points)}")
    found = values.reshape(count, size)
    if size == 3:
        return found
    return np.concatenate([found, np.where((found != 0).any(axis=1), 2.0, 0.0)[:, None]], axis=1)
