"""Every report that openrknn writes, of small files: `python -m tests.pages.every_page FOLDER` writes them all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from openrknn.cli.main import main
from tests.container.places import ROOT

MODELS, IMAGES = ROOT / "examples" / "models", ROOT / "examples" / "images"
CLASSIFIER = MODELS / "efficientnet_lite0_rk3588_i8.rknn"


def _command(*words: object) -> None:
    code = main([str(word) for word in words])
    assert code in (0, 1), words


def _inspect(page: Path) -> None:
    _command("inspect", CLASSIFIER, "--html", page)


def _compile(page: Path) -> None:
    words = ("--calibrate", IMAGES, "--std", 255, "--verify", "--report", page)
    _command("compile", MODELS / "tiny.onnx", "-o", page.with_suffix(".rknn"), *words)


def _compare(page: Path) -> None:
    _command("compare", MODELS / "picture_gate_rk3562_fp.rknn", MODELS / "picture_gate.onnx", "--html", page)


def _lint(page: Path) -> None:
    _command("lint", CLASSIFIER, "--report", page)


def _check(page: Path) -> None:
    model, golden = MODELS / "tones_rk3588_fp.rknn", page.with_suffix("")
    _command("check", model, "--record", golden)
    _command("check", model, "--golden", golden, "--report", page)


def _evaluate(page: Path) -> None:
    images, rows = page.with_suffix(""), []
    images.mkdir()
    for name, kind in (("coffee", "espresso"), ("cat", "tabby"), ("page", "<i>menu</i>")):
        (images / f"{name}.jpg").write_bytes((IMAGES / f"{name}.jpg").read_bytes())
        rows.append(f'{{"input": "{name}.jpg", "class": "{kind}"}}')
    (images / "samples.jsonl").write_text("\n".join(rows), "utf-8")
    _command("evaluate", CLASSIFIER, images / "samples.jsonl", "--report", page)


def _profile(page: Path) -> None:
    _command("profile", CLASSIFIER, "--runs", 1, "--report", page)


def _timeline(page: Path) -> None:
    _command("trace", "timeline", ROOT / "examples" / "traces" / "tiny.trace", "-o", page)


def _demo(page: Path) -> None:
    from openrknn.pages.demo import Part, render

    found = [(0.95, "coffee: espresso"), (0.6, "cat: Egyptian cat")]
    picture = ("coffee.jpg", (IMAGES / "coffee.jpg").read_bytes())
    page.write_text(
        render([Part("What is on these photos?", "a network", "a.rknn", 0.01, [picture], found)], 2.0), "utf-8"
    )


def _voice(page: Path) -> None:
    from openrknn.pages.voice import Heard, render
    from openrknn.voice import Audio, Detection, Segment, Transcript

    seconds = 24
    audio = Audio.of(np.sin(np.arange(seconds * 8000) / 9), 8000)
    text = ("Ever tried. Ever failed.", "No matter.", "Try again. Fail again. Fail better.")
    said = tuple(
        Segment(number, 7.0 * number, 7.0 * number + 5, part, confidence=0.4 + 0.2 * number)
        for number, part in enumerate(text)
    )
    chances = [(at / 32, 0.5 + 0.4 * np.sin(at / 40)) for at in range(seconds * 32)]
    wakes = [Detection("hey_jarvis", 3.0, 0.9)]
    heard = Heard(
        "beckett.wav", audio, Transcript(said, seconds), chances, wakes, [("device", "software"), ("model", "tiny")]
    )
    page.write_text(render(heard), "utf-8")


def _parted(page: Path) -> None:
    from openrknn.pages.parted.page import parted_page
    from tests.parted_file import parted_bundle

    page.write_text(parted_page(parted_bundle()), "utf-8")


def _language(page: Path) -> None:
    from openrknn.llm.quantise.model import quantise_language
    from openrknn.llm.quantise.report import make_report
    from openrknn.pages.language import render
    from tests.llm.quantise.sources import MemorySource
    from tests.llm.quantise.test_model import OTHER, TEXTS

    quantised = quantise_language(MemorySource(logit_scale=0.02), TEXTS, precision="w4a16", group=32, prefix=1)
    page.write_text(render(make_report(quantised, OTHER[:1], layers=True), "tiny"), "utf-8")


PAGES: dict[str, Callable[[Path], None]] = {
    "check": _check, "compare": _compare, "compile": _compile, "demo": _demo, "evaluate": _evaluate,
    "inspect": _inspect, "language": _language, "lint": _lint, "parted": _parted, "profile": _profile,
    "timeline": _timeline, "voice": _voice,
}  # fmt: skip
WITHOUT_VERDICT = {"demo"}
"""Not a report: it shows what the examples do."""


if __name__ == "__main__":
    for name, make in PAGES.items():
        folder = Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        make(folder / f"{name}.html")
