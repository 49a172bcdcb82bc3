"""Data to calibrate with, and other data to judge by: no picture, text or sound is in both.

Photos are those of scikit-image, scikit-learn, matplotlib, ultralytics, gradio, insightface and imgaug (unpacked
wheels, see `fetch`). Text is drawn with the fonts of matplotlib. Sounds are the invented voice of
examples/speech_quality.py.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

Array = npt.NDArray[Any]

ROOT = Path(__file__).resolve().parents[2]
SEEN = (
    "brick.png", "camera.png", "coins.png", "color.png", "china.jpg", "flower.jpg", "grass.png", "gravel.png",
    "horse.png", "hubble_deep_field.jpg", "ihc.png", "logo.png", "moon.png", "retina.jpg", "rocket.jpg",
    "grace_hopper.jpg", "text.png",
)  # fmt: skip
UNSEEN = (
    "astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "bus.jpg", "zidane.jpg", "t1.jpg",
    "cheetah2.jpg", "lion.jpg", "quokka.jpg", "cheetah.jpg", "tower.jpg",
)  # fmt: skip
WORDS_SEEN = (
    "The quick brown fox", "jumps over the lazy dog", "OPEN 24 HOURS", "No. 5, Baker Street", "12:30  17:45",
    "www.example.org", "Total  EUR 42.17", "Exit", "Platform 9", "do not feed the birds",
)  # fmt: skip
WORDS_UNSEEN = (
    "Please mind the gap", "Cafe Central", "Invoice 2031-07", "Keep left", "a journey of a thousand miles",
    "7 x 8 = 56", "SALE 30% OFF", "begins with one step",
)  # fmt: skip


def photo(folder: Path, name: str) -> Image.Image:
    """One of the photos, wherever it was unpacked."""
    found = sorted(folder.rglob(name))
    if not found:
        raise FileNotFoundError(f"{name} is not below {folder}; run benchmarks/acceptance/fetch.py")
    with Image.open(found[0]) as opened:
        return opened.convert("RGB")


def square(picture: Image.Image, side: int, place: float = 0.5, zoom: float = 1.0) -> Array:
    """A square part, [1, side, side, 3]."""
    small = int(min(picture.size) / zoom)
    left, top = (int((whole - small) * place) for whole in picture.size)
    part = picture.crop((left, top, left + small, top + small)).resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(part)[None]


def boxed(picture: Image.Image, side: int) -> Array:
    """The whole picture on gray, [1, side, side, 3]."""
    scale = side / max(picture.size)
    size = tuple(max(1, round(part * scale)) for part in picture.size)
    sheet = Image.new("RGB", (side, side), (114, 114, 114))
    sheet.paste(picture.resize((size[0], size[1]), Image.Resampling.BILINEAR),
                ((side - size[0]) // 2, (side - size[1]) // 2))  # fmt: skip
    return np.asarray(sheet)[None]


def seen_squares(folder: Path, side: int) -> list[Array]:
    """Two squares of each photo."""
    return [square(photo(folder, name), side, place, zoom) for name in SEEN for place, zoom in ((0.5, 1.0), (0.3, 1.5))]


def seen_boxed(folder: Path, side: int) -> list[Array]:
    """Each photo whole and a part of it."""
    return [view for name in SEEN for view in (boxed(photo(folder, name), side),
                                               square(photo(folder, name), side, 0.3, 1.4))]  # fmt: skip


def unseen_squares(folder: Path, side: int, count: int = 200) -> list[Array]:
    """Parts of the other photos: the middle, then closer, here and there."""
    places = ((0.5, 1.0), *((place, zoom) for zoom in (1.2, 1.5, 1.9, 2.4) for place in (0.2, 0.4, 0.6, 0.8)))
    views = [square(photo(folder, name), side, place, zoom) for place, zoom in places for name in UNSEEN]
    return views[:count]


def unseen_boxed(folder: Path, side: int, count: int = 10) -> list[Array]:
    """The other photos, whole."""
    return [boxed(photo(folder, name), side) for name in UNSEEN[:count]]


def _font(folder: Path, number: int, height: int) -> Any:
    fonts = [path for path in sorted(folder.rglob("DejaVu*.ttf")) if "Display" not in path.name]
    return ImageFont.truetype(str(fonts[number % len(fonts)]), height)


def page(folder: Path, side: int, seed: int, words: tuple[str, ...]) -> Array:
    """A page of lines, dark on light or the other way round, [1, side, side, 3]."""
    chance = np.random.default_rng(seed)
    paper, ink = (int(value) for value in chance.permutation([chance.integers(0, 90), chance.integers(160, 256)]))
    sheet = Image.new("RGB", (side, side), (paper,) * 3)
    draw, top = ImageDraw.Draw(sheet), 12
    while top < side - 50:
        height = int(chance.integers(14, 40))
        text = words[int(chance.integers(len(words)))]
        font = _font(folder, int(chance.integers(100)), height)
        draw.text((int(chance.integers(4, 60)), top), text, (ink,) * 3, font=font)
        top += int(height * 1.6) + 6
    noise = chance.normal(0, 6, (side, side, 3))
    return np.clip(np.asarray(sheet) + noise, 0, 255).astype(np.uint8)[None]


def line(folder: Path, width: int, height: int, seed: int, text: str) -> Array:
    """One line of text that fills the height, [1, height, width, 3]."""
    chance = np.random.default_rng(seed)
    paper, ink = (int(value) for value in chance.permutation([chance.integers(0, 70), chance.integers(180, 256)]))
    size = int(height * 0.72)
    font = _font(folder, seed, size)
    while font.getlength(text) > width - 8:
        size -= 1
        font = _font(folder, seed, size)
    sheet = Image.new("RGB", (width, height), (paper,) * 3)
    ImageDraw.Draw(sheet).text((4, (height - size * 1.17) / 2), text, (ink,) * 3, font=font)
    noise = chance.normal(0, 5, (height, width, 3))
    return np.clip(np.asarray(sheet) + noise, 0, 255).astype(np.uint8)[None]


def turned(pages: list[Array]) -> list[Array]:
    """Each page in its four orientations."""
    return [np.ascontiguousarray(np.rot90(entry, number, (1, 2))) for entry in pages for number in range(4)]


@cache
def _speech() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "examples" / "speech_quality.py"))


def sounds(levels: tuple[float, ...], seed: int) -> Iterator[Array]:
    """The invented voice with more and more noise, nine seconds at 16 kHz; other seeds start at other places."""
    voice = _speech()["voice"]()
    chance = np.random.default_rng(seed)
    for level in levels:
        shift = int(chance.integers(len(voice)))
        yield np.roll(voice, shift) * chance.uniform(0.4, 1.0) + level * chance.normal(0, 1, len(voice))


def spectrograms(levels: tuple[float, ...], seed: int) -> list[Array]:
    """What DNSMOS takes."""
    make: Callable[[Array], Array] = _speech()["spectrogram"]
    return [make(sound) for sound in sounds(levels, seed)]


def mel_windows(folder: Path, levels: tuple[float, ...], seed: int, step: int) -> list[Array]:
    """What the wake-word embedding takes: 76 frames of 32 bands of the package's own melspectrogram."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(next(folder.rglob("melspectrogram.onnx"))))
    name = session.get_inputs()[0].name
    windows = []
    for sound in sounds(levels, seed):
        samples = (sound[: 2 * 16000] * 32767).astype(np.float32)[None]
        mel = session.run(None, {name: samples})[0].reshape(-1, 32) / 10 + 2
        windows += [mel[at : at + 76].reshape(1, 76, 32, 1).astype(np.float32) for at in range(0, len(mel) - 76, step)]
    return windows
