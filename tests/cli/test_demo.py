"""`openrknn demo`, and the examples as programs."""

import json
import re
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from openrknn.cli.demo import parts
from openrknn.pages.demo import Part
from openrknn.voice import VoiceSetError
from tests.cli.run import program, run
from tests.container.places import ROOT

pytest.importorskip("PIL", reason="the extra 'images' (Pillow) is not installed")
Capture = pytest.CaptureFixture[str]
EXAMPLES = ROOT / "examples"
SHARED = ROOT.parent / "shared" / "models"
LARGEST_BYTES = 12 * 2**20  # 8 of pictures and their models, 4 of voices


def test_the_demo_writes_pictures_and_a_page(tmp_path: Path) -> None:
    result = program("demo", "--save", tmp_path / "out")
    assert (result.code, result.err) == (0, "")
    for expected in ("espresso", "8 lines of text", "heard 0800#15774*", "openrknn detect", "index.html"):
        assert expected in result.out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "cat.jpg", "coffee.jpg", "index.html", "index.json", "page.jpg",
    ]  # fmt: skip
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 3
    assert not re.search(r'(src|href)="(?!data:)', page)  # nothing from elsewhere
    assert "Egyptian cat" in page


def test_the_demo_for_programs(tmp_path: Path, capsys: Capture) -> None:
    result = run(capsys, "demo", "--save", tmp_path / "out", "--json")
    report = json.loads(result.out)
    assert [len(part["found"]) for part in report["parts"]] == [6, 1, 1]
    assert report["parts"][0]["found"][0]["score"] > 0.9
    assert report["parts"][2]["found"][0]["score"] == 1.0
    assert report["seconds"] < 60


@pytest.mark.parametrize("reason", ["", "no network"])
def test_a_spoken_sentence_is_heard_or_left_out(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    def spoken(_tell: object) -> Part:
        before = (tmp_path / "out" / "index.html").read_text()
        assert before.count("data:image/jpeg;base64,") == 3
        assert "heard 0800#15774*" in before, "the page waits for the models of this part"
        if reason:
            raise VoiceSetError(reason)
        return Part("What was said?", "about", "a set", 0.5, lines=[(0.9, "Ever tried, ever failed.")])

    monkeypatch.setattr(parts, "spoken_part", spoken)
    result = run(capsys, "demo", "--save", tmp_path / "out", "--voice")
    assert result.code == 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert ("Ever tried, ever failed." in result.out) == ("Ever tried" in page) == (not reason)
    assert ("What was said? is left out: no network" in result.err) == bool(reason)


def test_an_interrupted_demo_can_be_run_again(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoken(_tell: object) -> Part:
        raise KeyboardInterrupt

    monkeypatch.setattr(parts, "spoken_part", spoken)
    assert run(capsys, "demo", "--save", tmp_path / "out", "--voice").code == 130
    assert run(capsys, "demo", "--save", tmp_path / "out").code == 0


def test_without_the_examples_it_says_where_to_get_them(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENRKNN_EXAMPLES", str(tmp_path))
    result = run(capsys, "demo", "--save", tmp_path / "out")
    assert result.code == 2
    assert "in every wheel of openrknn and in its repository" in result.err
    assert not (tmp_path / "out").exists()


def example(folder: Path, *words: object) -> str:
    """Run an example as its users do."""
    command = [sys.executable, "-W", "error", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_telephone_hears_what_was_dialled(tmp_path: Path) -> None:
    text = example(tmp_path, EXAMPLES / "telephone.py")
    assert "dialled 0800#15774*\nheard   0800#15774* " in text


def test_the_telephone_hears_a_recording(tmp_path: Path) -> None:
    """Key 5 twice, key A: 770 + 1336 Hz, 697 + 1633 Hz, written as a WAV file."""
    time = np.arange(700) / 8000
    five, letter = (np.sin(2 * np.pi * a * time) + np.sin(2 * np.pi * b * time) for a, b in ((770, 1336), (697, 1633)))
    sound = np.concatenate([part for tone in (five, five, letter) for part in (tone * 0.3, np.zeros(500))])
    with wave.open(str(tmp_path / "keys.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((sound * 32767).astype("<i2").tobytes())
    assert example(tmp_path, EXAMPLES / "telephone.py", "keys.wav").strip() == "55A"


def test_a_bare_product(tmp_path: Path) -> None:
    """By `Matmul` in int8, where it is exact, and in float16; and as a model."""
    text = example(tmp_path, EXAMPLES / "matmul.py")
    assert "int8: equal to the exact product: True" in text
    for name in ("float16", "model"):
        match = re.search(rf"{name}: largest .* product: ([\d.]+) of ([\d.]+)", text)
        assert match
        assert float(match[1]) < 0.001 * float(match[2])


def need(name: str) -> Path:
    path = SHARED / name
    if not path.is_file():
        pytest.skip(f"{name} is not in ../shared/models")
    return path


def test_boxes_by_pipeline_and_by_hand(tmp_path: Path) -> None:
    model, photo = need("yolox_nano_rk3588_i8.rknn"), EXAMPLES / "images" / "coffee.jpg"
    assert " cup [" in example(tmp_path, EXAMPLES / "coco.py", model, photo)
    assert (tmp_path / "boxes.jpg").stat().st_size > 10_000
    by_hand = example(tmp_path, EXAMPLES / "coco_by_hand.py", model, photo).splitlines()
    assert by_hand
    assert all(" cup at " in line for line in by_hand)


def test_speech_is_judged(tmp_path: Path) -> None:
    """The noisiest voice is not the best one, and every score is possible."""
    text = example(tmp_path, EXAMPLES / "speech_quality.py", need("dnsmos_v8_rk3588_fp.rknn"))
    scores = [float(match) for match in re.findall(r": ([\d.]+) of 5", text)]
    assert len(scores) == 4
    assert all(1 <= score <= 5 for score in scores)
    assert min(scores) == scores[-1]


def test_the_examples_are_small() -> None:
    assert sum(path.stat().st_size for path in EXAMPLES.rglob("*") if path.is_file()) <= LARGEST_BYTES
