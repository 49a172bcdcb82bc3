"""Whole pictures through whole models against what ONNX Runtime found with the float models (`references.json`).

The detector and the reader are not in the repository: those tests need ../shared/models.
"""

import difflib
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.vision import Objects, Pipeline, Ranking, TextReader
from openrknn.vision.nms import iou
from openrknn.vision.pictures import read_picture
from tests.container.places import ROOT
from tests.vision.tensors import Array

pytest.importorskip("PIL", reason="the extra 'images' (Pillow) is not installed")
SHARED = ROOT.parent / "shared" / "models"
EXAMPLES = ROOT / "examples"
REFERENCES: dict[str, Any] = json.loads(Path(__file__).with_name("references.json").read_text())
MEAN, STD = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]


def need(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{name} is not in ../shared/models")
    return path


def photo(name: str) -> Array:
    """The street is the picture that came with the detector; the others are in the repository."""
    if name != "street":
        return read_picture(EXAMPLES / "images" / f"{name}.jpg")
    with np.load(need("yolox_nano_rk3588_i8.npz")) as archive:
        pixels: Array = archive["x0"][0]
    return pixels


def overlaps(found: Objects, name: str) -> list[float]:
    """For each box of ONNX Runtime, the best overlap with one of the same class."""
    best = []
    for wanted in REFERENCES["boxes"][name]:
        height, width = photo(name).shape[:2]
        box = np.clip(np.array([wanted["box"]], np.float32), 0, (width, height) * 2)  # ours end at the edge
        same = found.boxes[found.classes == wanted["class"]]
        best.append(float(iou(box, same).max(initial=0)))
    return best


@cache
def float_detector() -> Any:
    """The ONNX file in fp16, by our own compiler."""
    pytest.importorskip("onnx", reason="the extra 'onnx' is not installed")
    from openrknn.compiler import compile_onnx

    return compile_onnx(need("yolox_nano_416.onnx"), mean=MEAN, std=STD)


@pytest.mark.parametrize("name", ["street", "coffee"])
def test_in_fp16_the_boxes_are_those_of_onnx_runtime(name: str) -> None:
    """The same classes, as many, and every box at its place: a bus and three people on the street."""
    with Pipeline(float_detector(), threshold=0.3) as detect:
        found = detect(photo(name)).found
    assert isinstance(found, Objects)
    wanted = REFERENCES["boxes"][name]
    assert sorted(found.classes.tolist()) == sorted(entry["class"] for entry in wanted)
    assert min(overlaps(found, name)) > 0.95
    assert np.sort(found.scores) == pytest.approx(sorted(entry["score"] for entry in wanted), abs=0.02)
    if name == "street":
        assert [entry["class"] for entry in wanted] == [5, 0, 0, 0]


@pytest.mark.parametrize(("name", "overlap"), [("street", 0.8), ("coffee", 0.75)])
def test_in_int8_nothing_is_lost(name: str, overlap: float) -> None:
    """The smallest detector there is loses some certainty in int8; every object is still there, near its place."""
    with Pipeline(need("yolox_nano_rk3588_i8.rknn"), threshold=0.3) as detect:
        found = detect(photo(name)).found
    assert isinstance(found, Objects)
    assert min(overlaps(found, name)) > overlap
    assert len(found) <= len(REFERENCES["boxes"][name]) + 2


@pytest.mark.parametrize("name", ["cat", "coffee"])
def test_the_shipped_classifier_says_what_the_float_model_says(name: str) -> None:
    wanted = REFERENCES["classes"][name]
    with Pipeline(EXAMPLES / "models" / "efficientnet_lite0_rk3588_i8.rknn") as classify:
        found = classify(photo(name)).found
    assert isinstance(found, Ranking)
    assert found.classes[:3].tolist() == [entry["class"] for entry in wanted[:3]]
    assert found.probabilities[:5] == pytest.approx([entry["probability"] for entry in wanted], abs=0.03)


def test_the_shipped_finder_finds_the_lines_of_the_float_model() -> None:
    wanted = np.array([entry["box"] for entry in REFERENCES["lines"]["page"]], np.float32)
    with Pipeline(EXAMPLES / "models" / "ppocrv4_det_rk3588_i8.rknn") as find:
        found = find(photo("page")).found
    assert isinstance(found, Objects)
    best = iou(wanted, found.boxes).max(axis=1)
    assert np.median(best) > 0.9
    assert (best > 0.8).sum() >= len(wanted) - 1  # the last line may be seen as two, where its gap is


def test_a_page_says_what_the_float_models_read() -> None:
    """Found in int8, read in fp16: compared as one text, because spaces and the ends of lines may differ."""
    wanted = "".join(entry["text"] for entry in REFERENCES["lines"]["page"]).replace(" ", "")
    finder = Pipeline(EXAMPLES / "models" / "ppocrv4_det_rk3588_i8.rknn")
    with TextReader(finder, Pipeline(need("ppocrv4_rec_rk3588_fp.rknn"))) as read:
        found = read(photo("page")).found
    assert isinstance(found, Objects)
    assert found.texts is not None
    text = "".join(found.texts).replace(" ", "")
    assert difflib.SequenceMatcher(None, wanted, text, autojunk=False).ratio() > 0.93
    assert "Region-basedsegmentation" in text
