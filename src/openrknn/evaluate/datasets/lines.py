"""Images with text: one line per image (recognition), or lines with their places (detection), as PaddleOCR has them.

    word_1.png<TAB>Genaxis Theatre                                                recognition
    img_1.jpg<TAB>[{"transcription": "Joint", "points": [[377,117],[463,117],...]}, ...]   detection; ### is unreadable

or an image with a text file of the same name beside it.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.evaluate.datasets.classes import image_folder
from openrknn.evaluate.datasets.files import images_in, inside, name_in, read_text
from openrknn.evaluate.datasets.tables import Table
from openrknn.evaluate.errors import DatasetError
from openrknn.evaluate.truth import Dataset, LinesTruth, Sample, TextTruth, Truth

_LONGEST = 1 << 16
_MOST_CORNERS = 1000
_UNREADABLE = ("###", "*")


def read_text_table(table: Table) -> Dataset:
    """A table of images and text."""
    root = image_folder(table)
    is_places = all(value.startswith("[") for _, value in table.rows)
    samples = []
    for number, (file, value) in enumerate(table.rows, 1):
        where = f"{table.path}: line {number}"
        truth: Truth = _places(value, where) if is_places else TextTruth(value)
        samples.append(Sample(file, truth, inside(root, file, str(table.path))))
    kind = "images and places of text" if is_places else "images and text"
    return Dataset(table.path, kind, "text" if is_places else "read", tuple(samples))


def read_text_pairs(folder: Path) -> Dataset | None:
    """Images with a text file beside each; None where that is not what is there."""
    images = images_in(folder)
    pairs = [(path, path.with_suffix(".txt")) for path in images if path.with_suffix(".txt").is_file()]
    if not pairs or len(pairs) * 2 < len(images):
        return None
    samples = tuple(
        Sample(name_in(folder, path), TextTruth(" ".join(read_text(text, _LONGEST).split())), path)
        for path, text in pairs
    )
    return Dataset(folder, "images and text", "read", samples)


def _places(text: str, where: str) -> LinesTruth:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where}: not JSON: {str(error)[:120]}") from None
    corners, texts = [], []
    for row in rows:
        if not isinstance(row, dict) or not isinstance(row.get("transcription"), str):
            raise DatasetError(f"{where}: each line needs `transcription` and `points`")
        corners.append(_corners(row.get("points"), where))
        texts.append(None if row["transcription"] in _UNREADABLE else row["transcription"])
    return LinesTruth(tuple(corners), tuple(texts))


def _corners(value: Any, where: str) -> Any:
    is_good = isinstance(value, list) and 3 <= len(value) <= _MOST_CORNERS
    if not is_good or not all(
        isinstance(point, list) and len(point) == 2
        and all(isinstance(n, int | float) and math.isfinite(n) and abs(n) < 1e6 for n in point)
        for point in value
    ):  # fmt: skip
        raise DatasetError(f"{where}: `points` should be at least three [x, y]")
    return np.array(value, np.float64)
