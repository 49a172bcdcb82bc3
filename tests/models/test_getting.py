"""`openrknn models get`, and `openrknn detect` without a model: with a small network in the place of the real one."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from openrknn.cli.common.examples import find_examples
from openrknn.cli.pictures.ready import find_model, find_named
from openrknn.models.errors import GettingError
from openrknn.models.fetch import get
from openrknn.models.home import Got, best, installed, write_note
from openrknn.vision.sources import is_source
from tests.cli.run import run
from tests.models.small_graph import SmallGraph

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENRKNN_VISION", str(tmp_path / "home"))
    return tmp_path / "home"


def test_without_a_model_detect_says_how_to_get_one(home: Path, capsys: Capture) -> None:
    photo = find_examples() / "images" / "cat.jpg"
    result = run(capsys, "detect", photo)
    assert result.code == 2
    assert "`openrknn models get coco-ssd` gets one (16.1 MiB to fetch, Apache-2.0)" in result.err


def test_get_detect_and_list(home: Path, tmp_path: Path, capsys: Capture) -> None:
    SmallGraph().write(tmp_path / "package" / "models")
    made = run(capsys, "models", "get", "coco-ssd", "--source", tmp_path / "package", "--precision", "fp16",
               "--target", "rk3588", "--quiet")  # fmt: skip
    assert (made.code, made.out.strip()) == (0, str(home / "coco-ssd-rk3588.rknn"))
    photo = find_examples() / "images" / "cat.jpg"
    found = run(capsys, "detect", photo, "--threshold", "0.999", "--json")
    assert found.code == 0, found.err
    told = json.loads(found.out)
    assert told["pictures"][0]["name"] == str(photo)
    assert told["family"] == "ssd-split"
    listed = json.loads(run(capsys, "models", "list", "--json").out)["models"]
    here = [(row["name"], row["licence"], row["here"]) for row in listed if row["command"] == "detect" and row["here"]]
    assert here == [("coco-ssd", "Apache-2.0", [str(home / "coco-ssd-rk3588.rknn")])]
    assert installed()[0].source == "package (local)"
    only = run(capsys, "detect", "coco-ssd")
    assert (only.code, "and the pictures?" in only.err) == (2, True)


def test_the_first_word_may_be_a_model_its_name_or_a_picture(home: Path) -> None:
    path = home / "coco-ssd-rk3588.rknn"
    home.mkdir()
    path.write_bytes(b"RKNN")
    write_note(Got(path, "coco-ssd", "detect", "rk3588", "int8", "Apache-2.0", "c", "s"))
    for words, wanted in {
        ("a.jpg",): (path, ["a.jpg"]),
        ("a.jpg", "b.jpg"): (path, ["a.jpg", "b.jpg"]),
        ("0",): (path, ["0"]),
        ("coco-ssd", "a.jpg"): (path, ["a.jpg"]),
        ("yolo.rknn", "a.jpg"): ("yolo.rknn", ["a.jpg"]),
        ("model", "a.jpg"): ("model", ["a.jpg"]),
    }.items():
        arguments = argparse.Namespace(model=words[0], sources=list(words[1:]))
        find_model(arguments, "detect")
        assert (arguments.model, arguments.sources) == (str(wanted[0]), wanted[1])


def test_other_commands_take_names_too_with_the_family_of_the_catalogue(home: Path, capsys: Capture) -> None:
    path = home / "yolov4-tiny-rk3588.rknn"
    home.mkdir()
    path.write_bytes(b"RKNN")
    write_note(Got(path, "yolov4-tiny", "detect", "rk3588", "int8", "MIT", "c", "s"))
    arguments = argparse.Namespace(model="yolov4-tiny", sources=["a.jpg"], family=None)
    find_model(arguments, "detect")
    assert (arguments.model, arguments.family) == (str(path), "yolov4-tiny")
    path = home / "ppocrv4-rec-rk3588.rknn"
    path.write_bytes(b"RKNN")
    write_note(Got(path, "ppocrv4-rec", "ocr", "rk3588", "fp16", "Apache-2.0", "c", "s"))
    arguments = argparse.Namespace(model="det.rknn", sources=["a.jpg"], reader="ppocrv4-rec", family=None)
    find_named(arguments, "ocr")
    assert (arguments.model, arguments.reader, arguments.family) == ("det.rknn", str(path), None)
    missing = run(capsys, "segment", "u2netp", "a.jpg")
    assert (missing.code, "`openrknn models get u2netp` gets one" in missing.err) == (2, True)


def test_what_is_taken_suits_the_board(home: Path) -> None:
    for target in ("rk3576", "rk3588"):
        home.mkdir(exist_ok=True)
        path = home / f"coco-ssd-{target}.rknn"
        path.write_bytes(b"RKNN")
        write_note(Got(path, "coco-ssd", "detect", target, "int8", "Apache-2.0", "c", "s"))
    (home / "broken.json").write_text("[")
    assert len(installed("detect")) == 2
    assert installed("pose") == []
    suited: dict[str | None, str | None] = {"rk3588": "rk3588", "rk3576": "rk3576", None: "rk3576", "rk3566": None}
    for chip, wanted in suited.items():
        got = best("detect", chip)
        assert (got.target if got else None) == wanted
    (home / "coco-ssd-rk3576.rknn").unlink()
    assert best("detect", "rk3576") is None


def test_mistakes_are_told(home: Path, tmp_path: Path) -> None:
    with pytest.raises(GettingError, match="no model is called 'x'; there are coco-ssd"):
        get("x")
    with pytest.raises(GettingError, match="no photos to calibrate with"):
        get("coco-ssd", calibrate=tmp_path / "none")
    with pytest.raises(GettingError, match=r"no model\.json in this folder"):
        get("coco-ssd", precision="fp16", source=tmp_path)


def test_words_that_are_pictures(tmp_path: Path) -> None:
    assert all(map(is_source, ("a.JPG", "b.mp4", "0", "rtsp://x/y", "photos/*.png", str(tmp_path))))
    assert not any(map(is_source, ("yolo.rknn", "yolo.onnx", "coco-ssd", "model", "a.rknnz")))
