"""Trained models on photos, where ../shared/models has them: what ONNX Runtime finds with the float model, too."""

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openrknn.runtime.session import Session
from openrknn.vision import Frame, Head, Objects, Pipeline, Reading, Settings, TextReader
from openrknn.vision.decoders import text_boxes, yolox
from openrknn.vision.geometry import place
from openrknn.vision.heads import heads_of
from openrknn.vision.labels import names_of
from openrknn.vision.nms import iou
from openrknn.vision.pictures import fitted, read_picture
from tests.container.places import ROOT
from tests.vision import slow
from tests.vision.tensors import Array

pytest.importorskip("PIL", reason="the extra 'images' (Pillow) is not installed")
SHARED = ROOT.parent / "shared" / "models"
EXAMPLES = ROOT / "examples"
MEAN, STD = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])
SQUARE = Frame(416, 416)
SETTINGS = Settings(threshold=0.3)


def need(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{name} is not in ../shared/models")
    return path


@cache
def street() -> Array:
    """The street photo that came with the detector, 416x416."""
    with np.load(need("yolox_nano_rk3588_i8.npz")) as archive:
        pixels: Array = archive["x0"][0]
    return pixels


@cache
def float_answers(name: str) -> tuple[Array, ...]:
    """The float model's outputs, by ONNX Runtime."""
    if importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("onnxruntime is not installed")
    import onnxruntime

    pixels = street() if name == "street" else read_picture(EXAMPLES / "images" / f"{name}.jpg")
    square = fitted(pixels, place(pixels.shape[1], pixels.shape[0], SQUARE, "letterbox"))
    session = onnxruntime.InferenceSession(str(need("yolox_nano_416.onnx")), providers=["CPUExecutionProvider"])
    normal = ((square - MEAN) / STD).transpose(0, 3, 1, 2).astype(np.float32)
    return tuple(session.run(None, {session.get_inputs()[0].name: normal}))


def names(found: Objects) -> list[str]:
    return [names_of("coco")[number] for number in found.classes]


def test_the_float_model_sees_a_bus_and_three_people() -> None:
    """Our decoder against the slow one, on real outputs."""
    outputs = float_answers("street")
    found = yolox.decode([Head("x", output) for output in outputs], SQUARE, SETTINGS)
    assert names(found).count("bus") == 1
    assert names(found).count("person") >= 3
    slowly = slow.yolox(list(outputs), SQUARE.width, SETTINGS.threshold)
    kept = slow.suppressed(slowly, SETTINGS.overlap)
    assert [slowly[row][0] for row in kept] == found.classes.tolist()
    assert np.array([slowly[row][2] for row in kept]) == pytest.approx(found.boxes, abs=1e-2)


def test_the_int8_model_sees_the_same() -> None:
    """Every sure object of the float model is there, at its place."""
    wanted = yolox.decode(
        [Head("x", output) for output in float_answers("street")], SQUARE, Settings(threshold=0.5)
    )
    with Pipeline(need("yolox_nano_rk3588_i8.rknn")) as detect:
        assert detect.family.name == "yolox"
        found = detect(street()).found
    assert isinstance(found, Objects)
    assert {"bus", "person"} <= set(names(wanted))
    for number, box in zip(wanted.classes, wanted.boxes, strict=True):
        same = found.boxes[found.classes == number]
        assert iou(box[None], same).max() > 0.75, names_of("coco")[number]


def test_raw_numbers_and_floats_give_the_same_objects() -> None:
    with Session(need("yolox_nano_rk3588_i8.rknn")) as session:
        raw = session.run(street()[None], outputs="raw")
        specs = session.outputs
    heads = heads_of(specs, raw)
    real = [Head(head.name, head.real(head.values)) for head in heads]
    quick, plain = (yolox.decode(some, SQUARE, SETTINGS) for some in (heads, real))
    assert quick.classes.tolist() == plain.classes.tolist()
    assert quick.boxes == pytest.approx(plain.boxes, abs=1e-3)
    assert len(quick) > 3


def test_things_on_the_example_photo() -> None:
    with Pipeline(need("yolox_nano_rk3588_i8.rknn"), threshold=0.4) as detect:
        found = detect(EXAMPLES / "images" / "coffee.jpg").found
    assert isinstance(found, Objects)
    assert names(found)[0] == "cup"
    wanted = yolox.decode([Head("x", output) for output in float_answers("coffee")], SQUARE, SETTINGS)
    assert names(wanted)[0] == "cup"


def test_the_shipped_text_detector_agrees_with_the_simulator() -> None:
    """The lines that our NPU finds on the page are those that the converter's simulator finds."""
    model = EXAMPLES / "models" / "ppocrv4_det_rk3588_i8.rknn"
    with Pipeline(model) as find:
        pixels = read_picture(EXAMPLES / "images" / "page.jpg")
        found = find(pixels).found
    with np.load(model.with_name(f"{model.stem}_page.npz")) as archive:
        simulated = archive["o0"].astype(np.float32) / 255
    placement = place(pixels.shape[1], pixels.shape[0], Frame(480, 480), "letterbox")
    wanted = text_boxes.decode([Head("x", simulated)], Frame(480, 480), Settings(threshold=0.7)).to_picture(placement)
    assert isinstance(found, Objects)
    assert 7 <= len(found) <= 9
    # The last line may be one or two, as its gap is seen.
    for box in found.boxes[:6]:
        assert iou(box[None], wanted.boxes).max() > 0.85


def test_a_line_of_a_page_is_found_and_read() -> None:
    finder = Pipeline(EXAMPLES / "models" / "ppocrv4_det_rk3588_i8.rknn")
    reader = Pipeline(need("ppocrv4_rec_rk3588_fp.rknn"))
    upper = read_picture(EXAMPLES / "images" / "page.jpg")[:42]  # its first line, too long for the reader at once
    with TextReader(finder, reader) as read:
        found = read(upper).found
    assert isinstance(found, Objects)
    assert found.texts is not None
    assert found.texts == ("Region-based segmentation",)


def test_a_word_is_read() -> None:
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (230, 48), (240, 240, 235))
    ImageDraw.Draw(image).text((8, 6), "openRKNN 42", font=ImageFont.load_default(32), fill=(20, 20, 30))
    with Pipeline(need("ppocrv4_rec_rk3588_fp.rknn")) as read:
        result: Any = read(image).found
    assert isinstance(result, Reading)
    assert result.text.replace(" ", "") == "openRKNN42"
    assert result.score > 0.9
