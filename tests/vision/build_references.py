"""What ONNX Runtime finds with the float models, stored for tests that have no ONNX Runtime and no float models.

    python -m tests.vision.build_references YOLOX.onnx EFFICIENTNET.onnx PPOCR_DET.onnx PPOCR_REC.onnx

The detector is ../shared/models/yolox_nano_416.onnx; the classifier is what examples/models/build_efficientnet.py
exports on its way; both parts of PP-OCRv4 are in PyPI's rapidocr-onnxruntime 1.4.4. Boxes and texts are worked out with
the slow twins of `slow.py`, not with the decoders that are tested. Needs onnxruntime and the photo in
../shared/models/yolox_nano_rk3588_i8.npz. Written with onnxruntime 1.31.1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.vision.decoders import text_boxes
from openrknn.vision.geometry import place
from openrknn.vision.heads import Frame, Head, Settings
from openrknn.vision.labels import ppocr_characters
from openrknn.vision.ocr import parts_of_line
from openrknn.vision.pictures import cut_out, fitted, read_picture
from openrknn.vision.results import Objects
from tests.container.places import ROOT
from tests.vision import slow
from tests.vision.tensors import Array

IMAGES = ROOT / "examples" / "images"
STREET = ROOT.parent / "shared" / "models" / "yolox_nano_rk3588_i8.npz"
FILE = Path(__file__).with_name("references.json")
MEAN, STD = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])
THRESHOLD, OVERLAP = 0.3, 0.45
BEST = 5


def answer(model: str, values: Array) -> list[Array]:
    """The outputs for an input [1, height, width, 3] of normalized numbers."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    planes = values.transpose(0, 3, 1, 2).astype(np.float32)
    outputs: list[Array] = session.run(None, {session.get_inputs()[0].name: planes})
    return outputs


def in_frame(pixels: Array, frame: Frame, fit: str) -> Array:
    return fitted(pixels, place(pixels.shape[1], pixels.shape[0], frame, fit))


def boxes(model: str, pixels: Array) -> list[dict[str, Any]]:
    """Classes, scores and boxes in pixels of the picture."""
    frame = Frame(416, 416)
    outputs = answer(model, (in_frame(pixels, frame, "letterbox") - MEAN) / STD)
    found = slow.yolox(outputs, frame.width, THRESHOLD)
    scale = 416 / max(pixels.shape[:2])
    left, top = ((416 - round(side * scale)) // 2 for side in (pixels.shape[1], pixels.shape[0]))
    return [
        {
            "class": found[row][0],
            "score": round(found[row][1], 4),
            "box": [round((value - (left, top)[at % 2]) / scale, 2) for at, value in enumerate(found[row][2])],
        }
        for row in slow.suppressed(found, OVERLAP)
    ]


def classes(model: str, pixels: Array) -> list[dict[str, Any]]:
    """The five best."""
    (logits,) = answer(model, (in_frame(pixels, Frame(224, 224), "crop").astype(np.float64) - 127) / 128)
    powers = np.exp(logits[0] - logits[0].max())
    shares = powers / powers.sum()
    return [
        {"class": int(number), "probability": round(float(shares[number]), 4)} for number in (-shares).argsort()[:BEST]
    ]


def lines(finder: str, reader: str, pixels: Array) -> list[dict[str, Any]]:
    """Boxes of lines, and what they say."""
    frame, strip = Frame(480, 480), Frame(320, 48)
    (probabilities,) = answer(finder, (in_frame(pixels, frame, "letterbox") - MEAN) / STD)
    found = text_boxes.decode([Head("x", probabilities)], frame, Settings(threshold=0.7))
    found = found.to_picture(place(pixels.shape[1], pixels.shape[0], frame, "letterbox"))
    assert isinstance(found, Objects)
    assert found.corners is not None
    characters = "".join(ppocr_characters())
    texts = []
    for corners in found.corners:
        text = ""
        for part, space in parts_of_line(cut_out(pixels, corners), strip):
            (steps,) = answer(reader, in_frame(part, strip, "line").astype(np.float64) / 127.5 - 1)
            text += space + slow.ctc(steps[0].argmax(axis=1).tolist(), characters)
        texts.append(text)
    return [
        {"text": text, "box": [round(float(value), 1) for value in box]}
        for text, box in zip(texts, found.boxes, strict=True)
    ]


def main(detector: str, classifier: str, finder: str, reader: str) -> None:
    """Write references.json."""
    photos = {name: read_picture(IMAGES / f"{name}.jpg") for name in ("cat", "coffee", "page")}
    with np.load(STREET) as archive:
        street = archive["x0"][0]
    found = {
        "boxes": {"street": boxes(detector, street), "coffee": boxes(detector, photos["coffee"])},
        "classes": {name: classes(classifier, photos[name]) for name in ("cat", "coffee")},
        "lines": {"page": lines(finder, reader, photos["page"])},
    }
    FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
