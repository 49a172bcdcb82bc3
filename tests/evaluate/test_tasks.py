"""Tasks beside classes and boxes: pixels, lines of text, speech."""

import json
import wave
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import openrknn.evaluate.run as running
from openrknn.evaluate import DatasetError, evaluate
from openrknn.evaluate.models import Subject
from openrknn.vision import Areas, Objects, Pipeline
from tests.container.places import ROOT, golden

SMALL = golden("image_rk3588_i8")  # 16x16 pixels in, [1, 16, 16, 16] out: reads as a segmentation of 16 classes


def test_pixels_of_a_model_beside_its_own_masks(tmp_path: Path) -> None:
    for folder in ("images", "masks"):
        (tmp_path / folder).mkdir()
    random = np.random.default_rng(0)
    with Pipeline(SMALL) as pipeline:
        for name in ("a", "b"):
            pixels = random.integers(0, 256, (16, 16, 3), np.uint8)
            found = pipeline(pixels).found
            assert isinstance(found, Areas)
            mask = found.classes.astype(np.uint8)
            mask[0] = 255  # not counted
            Image.fromarray(pixels).save(tmp_path / "images" / f"{name}.png")
            Image.fromarray(mask).save(tmp_path / "masks" / f"{name}.png")
    report = evaluate(SMALL, tmp_path)
    assert report.primary == "miou"
    assert report.value == 1
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(tmp_path / "masks" / "b.png")
    assert (evaluate(SMALL, tmp_path).value or 1) < 1
    Image.new("L", (9, 9)).save(tmp_path / "masks" / "b.png")
    report = evaluate(SMALL, tmp_path)
    assert "the mask has 9x9, the image 16x16 pixels" in report.problems[0][1]
    (tmp_path / "masks" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(DatasetError, match="none of 2 samples"):
        evaluate(SMALL, tmp_path)


def test_lines_of_text_beside_those_that_the_model_finds(tmp_path: Path) -> None:
    model, page = ROOT / "examples/models/ppocrv4_det_rk3588_i8.rknn", ROOT / "examples/images/page.jpg"
    (tmp_path / "page.jpg").write_bytes(page.read_bytes())
    with Pipeline(model) as pipeline:
        found = pipeline(page).found
    assert isinstance(found, Objects)
    assert found.corners is not None
    rows = [{"transcription": "x", "points": corners.astype(float).tolist()} for corners in found.corners]
    missing = [{"transcription": "x", "points": [[0, 0], [9, 0], [9, 3], [0, 3]]}]
    (tmp_path / "label.txt").write_text(f"page.jpg\t{json.dumps(rows + missing)}\n")
    report = evaluate(model, tmp_path)
    count = len(found)
    assert report.model.scores.values == pytest.approx(
        {"hmean": 2 * count / (2 * count + 1), "precision": 1, "recall": count / (count + 1)}
    )


def test_speech_beside_its_transcripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("a", "The cat sat."), ("b", "Hello there, world")):
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", ""))
            file.writeframes(np.zeros(1600 if name == "a" else 3200, np.int16).tobytes())
        (tmp_path / f"{name}.txt").write_text(text)

    def listen(audio: Any) -> Any:
        return SimpleNamespace(text="the cat sat" if len(audio.samples) == 1600 else "hello world")

    monkeypatch.setattr(running, "open_subject", lambda *_: Subject("voice", "speech", "here", transcriber=listen))
    report = evaluate("voice", tmp_path)
    assert report.primary == "wer"
    assert report.value == pytest.approx(1 / 6)
    assert report.metric.is_error
    assert report.failures(None, {"wer": 0.1}) == ["WER is 16.7 %; required is 10.0 %"]
    assert (report.worst[0].name, report.worst[0].said) == ("b.wav", "hello world")
    assert len(report.worst) == 1
