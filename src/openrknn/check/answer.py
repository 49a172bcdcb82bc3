"""What a model should answer: classes, boxes, points, areas, text, a transcript; how far it may be off."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from openrknn.check.errors import GoldenError
from openrknn.check.fields import Fields, inside

Label: TypeAlias = "str | int"
"""A class by its name or its number."""

_LARGEST = 64 << 20
"""Bytes of an answer in a file of its own."""
_MOST_BOXES = 100_000


@dataclass(frozen=True, slots=True)
class Box:
    """One thing that has to be found."""

    label: Label | None
    corners: tuple[float, float, float, float] | None = None
    """left, top, right, bottom, in pixels of the picture."""
    score: float | None = None
    points: tuple[tuple[float, float], ...] = ()
    mask_pixels: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What is None is not looked at."""

    classes: tuple[Label, ...] | None = None
    within: int | None = None
    """The classes have to be among so many of the best; None: they are the best, in this order."""
    probability: float | None = None
    """Of the first class."""
    probability_tolerance: float = 0.05
    boxes: tuple[Box, ...] | None = None
    iou: float = 0.5
    score_tolerance: float = 0.1
    extra: int = 0
    """So many boxes more may be found."""
    missing: int = 0
    """So many boxes may be missed."""
    point_tolerance: float = 5.0
    """Pixels."""
    mask_tolerance: float = 0.1
    """Of its area."""
    counts: Mapping[str, float] | None = None
    """Class -> how many."""
    areas: Mapping[str, float] | None = None
    """Class -> its share of the picture."""
    share_tolerance: float = 0.02
    text: str | None = None
    character_errors: float = 0.0
    """The share of characters that may be wrong."""
    transcript: str | None = None
    word_errors: float = 0.0
    """The share of words that may be wrong."""
    file: Path | None = field(default=None, compare=False)
    """Where it was read from, if not from golden.toml: `--update` may write it again."""


def read_answer(value: Any, row: Fields, root: Path, path: str) -> Answer:
    """A table in golden.toml, or the name of a .json with the same keys."""
    if not isinstance(value, str):
        return _answer(_table(row, value), None)
    file = inside(root, value, path, row.line("answer"))
    try:
        if file.stat().st_size > _LARGEST:
            raise GoldenError(f"larger than {_LARGEST >> 20} MiB", path=str(file))
        data = json.loads(file.read_bytes())
    except OSError as error:
        raise GoldenError(f"cannot be read: {error.strerror or error}", path=str(file)) from None
    except (ValueError, RecursionError) as error:
        raise GoldenError(f"not JSON: {error}", path=str(file)) from None
    return _answer(Fields(data, str(file), "", "answer"), file)


def _table(row: Fields, value: Any) -> Fields:
    return row._inner(value, "answer")


def _answer(row: Fields, file: Path | None) -> Answer:
    found = Answer(
        classes=_labels(row, "classes"),
        within=row.whole("within"),
        probability=row.number("probability", most=1),
        probability_tolerance=_or(row.number("probability_tolerance", most=1), 0.05),
        boxes=_boxes(row),
        iou=_or(row.number("iou", most=1), 0.5),
        score_tolerance=_or(row.number("score_tolerance", most=1), 0.1),
        extra=row.whole("extra") or 0,
        missing=row.whole("missing") or 0,
        point_tolerance=_or(row.number("point_tolerance"), 5.0),
        mask_tolerance=_or(row.number("mask_tolerance"), 0.1),
        counts=row.numbers("counts"),
        areas=row.numbers("areas"),
        share_tolerance=_or(row.number("share_tolerance", most=1), 0.02),
        text=_maybe(row, "text"),
        character_errors=_or(row.number("character_errors"), 0.0),
        transcript=_maybe(row, "transcript"),
        word_errors=_or(row.number("word_errors"), 0.0),
        file=file,
    )
    row.finish()
    expected = (found.classes, found.boxes, found.counts, found.areas, found.text, found.transcript)
    if all(entry is None for entry in expected):
        raise row.wrong("", "the answer expects nothing; give classes, boxes, counts, areas, text or transcript")
    return found


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _maybe(row: Fields, key: str) -> str | None:
    return row.text(key) if row.has(key) else row.take(key)


def _labels(row: Fields, key: str) -> tuple[Label, ...] | None:
    value = row.take(key)
    if value is None:
        return None
    if not isinstance(value, list) or not value or not all(_is_label(entry) for entry in value):
        raise row.wrong(key, f"{key} should be a list of names or numbers, not {value!r:.60}")
    return tuple(value)


def _is_label(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _boxes(row: Fields) -> tuple[Box, ...] | None:
    if not row.has("boxes"):
        row.take("boxes")
        return None
    rows = row.tables("boxes")
    if len(rows) > _MOST_BOXES:
        raise row.wrong("boxes", f"{len(rows)} boxes; {_MOST_BOXES} are allowed")
    return tuple(_box(entry) for entry in rows)


def _box(row: Fields) -> Box:
    label = row.take("class")
    if label is not None and not _is_label(label):
        raise row.wrong("class", f"class should be a name or a number, not {label!r:.60}")
    corners = _tuple(row, "box", row.take("box"), 4)
    points = row.take("points")
    if points is not None and not isinstance(points, list):
        raise row.wrong("points", "points should be a list of [x, y]")
    places = [_tuple(row, "points", point, 2) for point in points or ()]
    box = Box(
        label=label,
        corners=None if corners is None else (corners[0], corners[1], corners[2], corners[3]),
        score=row.number("score", most=1),
        points=tuple((place[0], place[1]) for place in places if place is not None),
        mask_pixels=row.whole("mask_pixels"),
        text=_maybe(row, "text"),
    )
    row.finish()
    return box


def _tuple(row: Fields, key: str, value: Any, length: int) -> Sequence[float] | None:
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) != length
        or not all(isinstance(entry, int | float) and not isinstance(entry, bool) for entry in value)
    ):
        raise row.wrong(key, f"{key} should be {length} numbers, not {value!r:.60}")
    return [float(entry) for entry in value]
