"""The commands that look at pictures, with a small model: 16x16 pixels in, 16 classes per pixel out."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from openrknn.vision.pipeline import Pipeline
from tests.cli.run import messages, run
from tests.container.places import ROOT, golden

Image = pytest.importorskip("PIL.Image", reason="the extra 'images' (Pillow) is not installed")
Capture = pytest.CaptureFixture[str]
SMALL = golden("image_rk3588_i8")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Three pictures, the second broken."""
    folder = tmp_path / "photos"
    folder.mkdir()
    chance = np.random.default_rng(0)
    for name in ("a", "b", "c"):
        Image.fromarray(chance.integers(0, 256, (40, 60, 3), np.uint8)).save(folder / f"{name}.png")
    (folder / "b.png").write_bytes((folder / "b.png").read_bytes()[:300])
    return folder


def test_a_folder_with_a_broken_picture(photos: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    result = run(capsys, "segment", SMALL, photos, "--save", out)
    assert result.code == 1
    assert "b.png" in result.err
    assert "skipped" in result.err
    assert "2 pictures" in result.out
    assert sorted(path.name for path in out.iterdir()) == ["a.png", "c.png", "index.json"]
    with Image.open(out / "a.png") as image:
        assert image.format == "PNG"  # what came without losses stays so
        assert image.size[0] / image.size[1] == pytest.approx(60 / 40)
    index = json.loads((out / "index.json").read_text())
    assert [entry["path"] for entry in index["files"]] == ["a.png", "c.png"]
    assert index["family"] == "segmentation"
    again = run(capsys, "segment", SMALL, photos, "--save", out)
    assert again.code == 2
    assert "--force" in again.err


def test_json(photos: Path, capsys: Capture) -> None:
    result = run(capsys, "segment", SMALL, photos, "--json", "--threshold", "0.5")
    report = json.loads(result.out)
    assert report["schema_version"] == 1
    assert (report["task"], report["device"], report["interrupted"]) == ("segment", "software:rk3588", False)
    assert report["threshold"] == 0.51
    assert "no opinion" in report["notes"][0]
    names = [Path(entry["name"]).name for entry in report["pictures"]]
    assert names == ["a.png", "b.png", "c.png"]
    assert report["pictures"][1]["problem"]
    assert report["pictures"][0]["width"] == 60
    assert sum(row["share"] for row in report["pictures"][0]["found"]) == pytest.approx(1)
    assert report["pictures"][0]["seconds"]["run"] > 0


def test_quiet_and_counted(photos: Path, capsys: Capture) -> None:
    result = run(capsys, "segment", SMALL, photos / "a.png", photos / "c.png", "--quiet", "--count", "1")
    assert result.code == 0
    assert {line.split("  ")[0] for line in result.out.splitlines()} == {str(photos / "a.png")}
    assert result.out.splitlines()[0].split("  ")[2].startswith("class ")


def test_labels_beside_the_model_and_given(photos: Path, tmp_path: Path, capsys: Capture) -> None:
    model = tmp_path / "model.rknn"
    model.write_bytes(SMALL.read_bytes())
    (tmp_path / "labels.txt").write_text("\n".join(f"thing{number}" for number in range(16)) + "\n")
    assert "thing" in run(capsys, "segment", model, photos / "a.png").out
    (tmp_path / "other.txt").write_text("\n".join(f"stuff{number}" for number in range(16)) + "\n")
    assert "stuff" in run(capsys, "segment", model, photos / "a.png", "--labels", tmp_path / "other.txt").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["detect", SMALL, "PHOTO"], "try the command or task 'segment'"),
        (["segment", SMALL, "missing.jpg"], "missing.jpg: no such file"),
        (["segment", SMALL, "PHOTO", "--threshold", "7"], "not a number from 0 to 1"),
        (["segment", SMALL, "PHOTO", "--family", "yolov99"], "'yolov99' is unknown"),
        (["segment", SMALL, "opencv:rtsp://camera"], "openrknn[video]"),
        (["ocr", SMALL, "PHOTO"], "no ocr family"),
        (["segment", golden("two_inputs_rk3588_i8"), "PHOTO"], "2 inputs"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    words: list[object], message: str, photos: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    result = run(capsys, *[photos / "a.png" if word == "PHOTO" else word for word in words])
    assert result.code == 2
    assert message in result.err
    assert messages(result.err) == 1


def test_only_broken_pictures(photos: Path, capsys: Capture) -> None:
    assert run(capsys, "segment", SMALL, photos / "b.png").code == 2


def test_ctrl_c_keeps_what_was_saved(
    photos: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = Pipeline.stream

    def interrupted(self: Pipeline, sources: list[str]) -> object:
        yield next(iter(stream(self, sources)))
        raise KeyboardInterrupt

    monkeypatch.setattr(Pipeline, "stream", interrupted)
    result = run(capsys, "segment", SMALL, photos, "--save", tmp_path / "out")
    assert result.code == 130
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.png", "index.json"]
    assert "interrupted" in result.out


def test_a_real_ctrl_c_ends_the_program(tmp_path: Path) -> None:
    """A few hundred pictures; the signal comes when the first is saved."""
    photos = tmp_path / "photos"
    photos.mkdir()
    Image.fromarray(np.zeros((300, 300, 3), np.uint8)).save(photos / "000.png")
    for number in range(1, 400):
        os.link(photos / "000.png", photos / f"{number:03}.png")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "openrknn.cli", "segment", str(SMALL), str(photos), "--save", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not any(out.glob("*.png")) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        text, complaints = process.communicate(timeout=60)
    assert process.returncode == 130, complaints
    assert "Traceback" not in complaints
    assert "interrupted" in text
    saved = json.loads((out / "index.json").read_text())["files"]
    assert 1 <= len(saved) < 400


def test_classify_names_the_coffee(capsys: Capture) -> None:
    model = ROOT / "examples" / "models" / "efficientnet_lite0_rk3588_i8.rknn"
    result = run(capsys, "classify", model, ROOT / "examples" / "images" / "coffee.jpg", "--quiet", "--top", "1")
    assert result.code == 0
    assert result.out.split("  ")[2].strip() == "espresso"
