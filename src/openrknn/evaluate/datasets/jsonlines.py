"""JSON lines: one object per line.

    {"inputs": {"x": [[1.0, 2.0]]}, "expected": {"y": [[0.3]]}}     arrays; or "a.npy", or "cat.jpg" for an image
    {"input": "cat.npy", "expected": "cat_out.npy"}                  a model with one input and one output
    {"input": "cat.jpg", "class": 281}                               a classifier
    {"audio": "a.wav", "text": "hello"}                              a transcriber
    {"input": "word.png", "text": "EXIT"}                            a reader

Files are relative to the one with the lines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.errors import FormatError
from openrknn.evaluate.datasets.files import inside, is_image, is_sound, read_text
from openrknn.evaluate.datasets.speech import speech_dataset
from openrknn.evaluate.errors import DatasetError
from openrknn.evaluate.truth import ClassTruth, Dataset, Sample, TensorTruth, TextTruth
from openrknn.numpyfiles import read_npy

_FILE = ("audio", "audio_filepath", "image", "input", "file", "path")
_TEXT = ("text", "transcript", "transcription", "sentence")
_MOST_ELEMENTS = 1 << 28


def read_json_lines(path: Path) -> Dataset:
    """The dataset in a .jsonl file."""
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if line.strip():
            rows.append((f"{path}: line {number}", _row(line, f"{path}: line {number}")))
    if not rows:
        raise DatasetError(f"{path}: there are no lines in it")
    first = rows[0][1]
    if "expected" in first:
        samples = tuple(Sample(f"line {at}", _tensors(row, path.parent, where))
                        for at, (where, row) in enumerate(rows, 1))  # fmt: skip
        return Dataset(path, "JSON lines", "tensors", samples)
    pairs = [(_text(row, _FILE, where), row, where) for where, row in rows]
    if "class" in first:
        return _classes(path, pairs)
    texts = [(file, _text(row, _TEXT, where)) for file, row, where in pairs]
    if all(is_sound(file) for file, _ in texts):
        return speech_dataset(path, "JSON lines of recordings and text", texts)
    if all(is_image(file) for file, _ in texts):
        found = tuple(Sample(file, TextTruth(text), inside(path.parent, file, str(path))) for file, text in texts)
        return Dataset(path, "JSON lines of images and text", "read", found)
    raise DatasetError(f"{path}: {texts[0][0]!r:.80} is neither an image nor a recording")


def _row(line: str, where: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where}: not JSON: {str(error)[:120]}") from None
    if not isinstance(row, dict):
        raise DatasetError(f"{where}: each line is an object with `inputs` and `expected`, or `audio` and `text`")
    return row


def _text(row: Mapping[str, Any], keys: tuple[str, ...], where: str) -> str:
    found = next((row[key] for key in keys if key in row), None)
    if not isinstance(found, str):
        raise DatasetError(f"{where}: one of {', '.join(keys)} has to be a text")
    return found


def _classes(path: Path, pairs: list[tuple[str, Mapping[str, Any], str]]) -> Dataset:
    values = [row.get("class") for _, row, _ in pairs]
    if all(isinstance(value, int) and value >= 0 for value in values):
        names, numbers = None, [int(str(value)) for value in values]
    elif all(isinstance(value, str) for value in values):
        names = tuple(sorted({str(value) for value in values}))
        numbers = [names.index(str(value)) for value in values]
    else:
        raise DatasetError(f"{path}: `class` has to be a whole number on every line, or a name on every line")
    samples = tuple(
        Sample(file, ClassTruth(number), inside(path.parent, file, where))
        for (file, _, where), number in zip(pairs, numbers, strict=True)
    )
    return Dataset(path, "JSON lines of images and classes", "classify", samples, names)


def _tensors(row: Mapping[str, Any], folder: Path, where: str) -> TensorTruth:
    inputs = row.get("inputs", row.get("input"))
    if inputs is None or "expected" not in row:
        raise DatasetError(f"{where}: `inputs` (or `input`) and `expected` are needed")
    fed = inputs if isinstance(inputs, dict) else {"": inputs}
    wanted = row["expected"] if isinstance(row["expected"], dict) else {"": row["expected"]}
    return TensorTruth(
        {name: _value(value, folder, f"{where}: input {name!r}") for name, value in fed.items()},
        {name: _array(value, folder, f"{where}: expected {name!r}") for name, value in wanted.items()},
    )


def _value(value: Any, folder: Path, where: str) -> Any:
    if isinstance(value, str) and is_image(value):
        return inside(folder, value, where)
    return _array(value, folder, where)


def _array(value: Any, folder: Path, where: str) -> Any:
    if isinstance(value, str):
        if not value.endswith(".npy"):
            raise DatasetError(f"{where}: {value!r:.80} is neither an array, nor a .npy file, nor an image")
        return _load(inside(folder, value, where), where)
    try:
        found = np.array(value)
    except ValueError:
        raise DatasetError(f"{where}: rows of different lengths are not an array") from None
    if found.dtype.kind not in "biuf" or found.size > _MOST_ELEMENTS:
        raise DatasetError(f"{where}: it should be numbers, in lists of the same length")
    return found.astype(np.float32) if found.dtype == np.float64 else found


def _load(path: Path, where: str) -> Any:
    try:
        return read_npy(path)
    except (OSError, FormatError) as error:
        raise DatasetError(f"{where}: {path} cannot be read: {error}") from None
