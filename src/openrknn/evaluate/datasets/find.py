"""Which format a dataset has, by its content."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from openrknn.evaluate.datasets import classes, coco, lines, speech, yolo
from openrknn.evaluate.datasets.files import read_json
from openrknn.evaluate.datasets.jsonlines import read_json_lines
from openrknn.evaluate.datasets.tables import SUFFIXES, Table, read_table
from openrknn.evaluate.errors import DatasetError
from openrknn.evaluate.truth import Dataset

FORMATS = (
    "COCO (annotations/*.json with images and annotations)",
    "YOLO (data.yaml, or images/ and labels/*.txt)",
    "images/ and masks/ (PNG of class numbers)",
    "LibriSpeech (*.trans.txt)",
    "JSON lines (*.jsonl)",
    "a table of files (.csv, .tsv, .txt) with classes or text",
    "recordings or images with a .txt beside each",
    "a folder of images per class",
)
"""What is looked for in a folder, in this order."""


def open_dataset(path: str | os.PathLike[str], task: str | None = None) -> Dataset:
    """Read the descriptions of all samples; images and recordings are read later, one by one.

    `task` is what the model does. It decides where a format is ambiguous: a table of images with words may name
    classes or the text in the images, and four corners may be an oriented box or an outline.
    """
    place = Path(path)
    if not place.exists():
        raise DatasetError(f"{place}: no such file or folder; check the path")
    found = _folder(place, task) if place.is_dir() else _file(place, task)
    if found is None:
        looked = "; ".join(FORMATS)
        raise DatasetError(f"{place}: no dataset was recognised in it. Looked for: {looked}")
    if not found.samples:
        raise DatasetError(f"{place}: {found.kind} without samples")
    return found


def _file(path: Path, task: str | None) -> Dataset | None:
    suffix = path.suffix.lower()
    if suffix == ".json":
        return coco.read_coco(path, task)
    if suffix in (".yaml", ".yml"):
        return yolo.read_yaml(path, task)
    if suffix in (".jsonl", ".ndjson"):
        return read_json_lines(path)
    if suffix in SUFFIXES:
        table = read_table(path)
        return None if table is None else _table(table, task)
    return None


def _table(table: Table, task: str | None) -> Dataset:
    if table.is_sound:
        return speech.read_speech_table(table)
    is_text = table.column == "text" or (not table.column and table.is_tabbed and task != "classify")
    if task in ("read", "text"):
        is_text = True
    return lines.read_text_table(table) if is_text else classes.read_class_table(table)


def _folder(folder: Path, task: str | None) -> Dataset | None:
    return next((found for found in _readings(folder, task) if found is not None), None)


def _readings(folder: Path, task: str | None) -> Iterator[Dataset | None]:
    described = yolo.data_yaml(folder)
    if described is not None:
        yield yolo.read_yaml(described, task)
    yield _coco(folder, task)
    if task == "speech":
        yield speech.read_librispeech(folder)
        yield speech.read_speech_pairs(folder)
    if (folder / "images").is_dir():
        yield classes.read_masks(folder)
        yield yolo.read_folder(folder, task)
    for path in (*sorted(folder.glob("*.jsonl")), *sorted(folder.glob("*.ndjson"))):
        yield read_json_lines(path)
    yield _tables(folder, task)
    yield speech.read_librispeech(folder)
    yield speech.read_speech_pairs(folder)
    yield yolo.read_folder(folder, task)
    yield lines.read_text_pairs(folder)
    yield classes.read_named_images(folder)
    yield classes.read_class_folders(folder)


def _coco(folder: Path, task: str | None) -> Dataset | None:
    found = coco.json_files(folder)
    if task == "pose":
        found.sort(key=lambda path: "keypoints" not in path.name)
    for path in found:
        if coco.is_coco(read_json(path)):
            return coco.read_coco(path, task)
    return None


def _tables(folder: Path, task: str | None) -> Dataset | None:
    """The only table in a folder, or the one with a usual name."""
    usual = ("rec_gt", "label", "labels", "gt", "val", "test", "metadata", "transcripts")
    found = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in SUFFIXES and path.is_file()]
    found = [path for path in found if not path.name.endswith(".trans.txt")]
    found.sort(key=lambda path: next((at for at, word in enumerate(usual) if word in path.stem.lower()), len(usual)))
    for path in found[:20]:
        table = read_table(path) if path.stat().st_size else None
        if table is not None:
            return _table(table, task)
    return None
