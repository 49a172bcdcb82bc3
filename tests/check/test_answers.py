"""Answers beside what is expected: worked out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.check.answer import Answer, read_answer
from openrknn.check.compare_answers import answer_of, judge_answer, judge_text, judge_transcript
from openrknn.check.fields import Fields
from openrknn.check.tolerance import Tolerance, judge
from openrknn.container.model import TensorSpec
from openrknn.container.parts import Quantization
from openrknn.evaluate.metrics.text import edits
from openrknn.vision.result import Result
from openrknn.vision.results import Areas, Objects, Ranking

NAMES = ("person", "dog")


def expected(**words: Any) -> Answer:
    return read_answer(words, Fields({}, "golden.toml", ""), Path(), "golden.toml")


def scene() -> Result:
    boxes = np.array([[10, 10, 50, 90], [60, 20, 100, 60], [0, 0, 8, 8]], np.float32)
    found = Objects(
        boxes,
        np.array([0.9, 0.8, 0.4], np.float32),
        np.array([0, 1, 1]),
        keypoints=np.array([[[1, 2, 1], [3, 4, 1]]] * 3, np.float32),
        masks=np.ones((3, 10, 10), bool),
    )
    return Result("scene", None, "detect", found, NAMES)


BOXES = [
    {"class": "person", "box": [10, 10, 50, 90], "score": 0.9, "points": [[1, 2], [3, 4]], "mask_pixels": 100},
    {"class": 1, "box": [62, 20, 102, 60]},
]


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ({"boxes": BOXES, "extra": 1}, []),
        ({"boxes": BOXES}, ["1 box too many: dog 0.40"]),
        ({"boxes": BOXES, "extra": 2, "iou": 0.95}, ["1 at [62, 20, 102, 60] was not found (the nearest over"]),
        ({"boxes": BOXES, "extra": 2, "missing": 1, "iou": 0.95}, []),
        ({"boxes": [{"class": "cat"}], "extra": 3}, ["cat was not found"]),
        ({"boxes": [{"class": "person", "score": 0.5}], "extra": 3}, ["the score is 0.900; 0.5 +- 0.1 is expected"]),
        ({"boxes": [{"class": 0, "points": [[1, 2], [3, 14]]}], "extra": 3}, ["a point is 10.0 pixels off; 5 are"]),
        ({"boxes": [{"class": 0, "mask_pixels": 50}], "extra": 3}, ["the mask has 100 pixels; 50 are expected"]),
        ({"counts": {"dog": 2, "person": 1}}, []),
        ({"counts": {"dog": 3}}, ["2 of 'dog'; 3 are expected"]),
        ({"classes": ["dog"]}, ["the model gives no classes of the whole picture"]),
    ],
)  # fmt: skip
def test_boxes(words: dict[str, Any], wrong: list[str]) -> None:
    found, _ = judge_answer(scene(), expected(**words))
    assert len(found) == len(wrong)
    assert all(text in line for text, line in zip(wrong, found, strict=True))


def test_classes_and_areas() -> None:
    ranking = Ranking(np.array([1, 0]), np.array([0.7, 0.3], np.float32), np.array([2, 1], np.float32))
    result = Result("one", None, "classify", ranking, NAMES)
    assert judge_answer(result, expected(classes=["dog"], probability=0.72))[0] == []
    assert judge_answer(result, expected(classes=["person"], within=2))[0] == []
    assert "'person' is not number 1; found: dog 0.700" in judge_answer(result, expected(classes=["person"]))[0][0]
    assert "0.700; 0.9 +- 0.05" in judge_answer(result, expected(classes=[1], probability=0.9))[0][0]
    areas = Result("two", None, "segment", Areas(np.array([[0, 0, 0, 1]])), NAMES)
    assert judge_answer(areas, expected(areas={"person": 0.75, "dog": 0.25}))[0] == []
    assert "'dog' is 0.250" in judge_answer(areas, expected(areas={"dog": 0.5}))[0][0]


@pytest.mark.parametrize("result", [scene()])
def test_what_was_recorded_is_what_is_expected(result: Result) -> None:
    assert judge_answer(result, expected(**answer_of(result)))[0] == []


def test_words() -> None:
    assert edits("kitten", "sitting") == 3
    assert edits("", "abc") == edits("abc", "") == 3
    assert judge_transcript("Hello, World!", "hello world", 0.0)[0] == []
    assert judge_transcript("hello word", "hello world", 0.4) == (
        ["1 of 2 words wrong (50.0 %); 40 % allowed: 'hello word' instead of 'hello world'"],
        "1 of 2 words wrong (50.0 %)",
    )
    assert judge_text("one \ntwo", "one\ntwo\n", 0.0)[0] == []


SPEC = TensorSpec("y", (4,), "int8", "undefined", Quantization((0.5,), (0,)))


@pytest.mark.parametrize(
    ("limit", "wrong"),
    [
        (Tolerance(steps=2), []),
        (Tolerance(steps=1), ["1 of 4 elements off by up to 2 steps; 1 allowed"]),
        (Tolerance(steps=1, outliers=0.25), []),
        (Tolerance(exact=True), ["2 elements of 4 differ; they should be equal"]),
        (Tolerance(absolute=0.9), ["1 of 4 elements off by up to 1; 0.9 allowed"]),
        (Tolerance(absolute=0.5, relative=0.1), []),
        (Tolerance(relative=0.09), ["2 of 4 elements off by up to 1; 0.09 of the value allowed"]),
        (Tolerance(snr_db=30), ["signal to noise is 20.0 dB; 30 dB is allowed"]),
        (Tolerance(cosine=0.9999), ["the cosine is 0.997"]),
    ],
)
def test_tolerances(limit: Tolerance, wrong: list[str]) -> None:
    """Expected 10, 5, 0, 0 in steps of 0.5; found 11 (two steps off) and 4.5 (one)."""
    wanted, values = np.array([10.0, 5.0, 0.0, 0.0]), np.array([11.0, 4.5, 0.0, 0.0])
    found, _ = judge(values, wanted, limit, SPEC)
    assert len(found) == len(wrong)
    assert all(text in line for text, line in zip(wrong, found, strict=True))


def test_what_is_no_number_is_wrong() -> None:
    wanted = np.array([1.0, 2.0])
    assert "1 element infinite or not a number" in judge(np.array([1.0, np.nan]), wanted, Tolerance(absolute=9))[0]
    assert judge(np.array([1.0, np.nan]), np.array([1.0, np.nan]), Tolerance(exact=True))[0] == []
    assert judge(np.zeros((1, 2)), np.zeros(2), Tolerance(exact=True))[0] == []
    assert "the shape is 3; 2 is expected" in judge(np.zeros(3), np.zeros(2), Tolerance())[0]
