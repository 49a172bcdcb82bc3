"""`test:` cameras: coloured squares that cross the image on a fixed schedule, so that every event is known beforehand.

    test:SEED?size=160x96&fps=5&lanes=3&hold=2

Squares are 24 pixels wide and lie on a grid of 8, which the detector of `openrknn.watch.demo` finds exactly. What frame
number n shows depends on the seed and n only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

import numpy as np

from openrknn.names import meant
from openrknn.vision.errors import SourceError
from openrknn.vision.pictures import Pixels

__all__ = ["CELL", "LABELS", "PREFIX", "SIDE", "Scene", "Shape", "parse_scene"]

PREFIX = "test:"
CELL, SIDE = 8, 24
LABELS = ("person", "car", "cat")
"""The square's colour says which one it is: red, green, blue."""
_COLOURS = np.array([(250, 0, 0), (0, 250, 0), (0, 0, 250)], np.uint8)
_BACKGROUND = 40
_MOST_SIDE = 4096
_REST = 12
"""Cells of time between two squares of a lane, at least: a tracker must not take one for the other."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One square of a frame."""

    label: int
    box: tuple[int, int, int, int]
    """Left, top, right, bottom."""
    visit: tuple[int, int]
    """Which one it is: lane and number of the visit."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a simulated camera sees."""

    seed: int = 0
    width: int = 160
    height: int = 96
    fps: float = 5.0
    lanes: int = 2
    """Rows on which squares move, from left to right or back."""
    hold: int = 2
    """Frames that a square stays on a cell."""

    def shapes(self, number: int) -> list[Shape]:
        """What frame `number` shows. A square appears at the edge, crosses, and a pause follows that differs."""
        found = []
        for lane in range(self.lanes):
            columns = (self.width - SIDE) // CELL + 1
            cycle = self.hold * (columns + 2 * _REST)
            visit, at = divmod(number + lane * 7 * self.hold, cycle)
            dice = np.random.default_rng((self.seed, lane, visit))
            label, pause, is_back = int(dice.integers(3)), int(dice.integers(_REST * self.hold)), bool(dice.integers(2))
            step = (at - pause) // self.hold
            if not 0 <= step < columns:
                continue
            left = CELL * (columns - 1 - step if is_back else step)
            top = CELL + lane * (SIDE + CELL)
            found.append(Shape(label, (left, top, left + SIDE, top + SIDE), (lane, visit)))
        return found

    def frame(self, number: int) -> Pixels:
        """The image, with `number` as a row of 24 black and white cells at the lower edge, the lowest bit first."""
        pixels = np.full((self.height, self.width, 3), _BACKGROUND, np.uint8)
        for shape in self.shapes(number):
            left, top, right, bottom = shape.box
            pixels[top:bottom, left:right] = _COLOURS[shape.label]
        bits = (number >> np.arange(self.width // CELL)) & 1
        pixels[-CELL // 2 :] = np.repeat(np.where(bits, 255, 0), CELL)[None, : self.width, None]
        return pixels

    def number_of(self, pixels: Pixels) -> int:
        """The number that is written into a frame, also after lossy compression."""
        row = pixels[-CELL // 4, CELL // 2 : self.width // CELL * CELL : CELL, 1]
        return int(sum(1 << at for at, value in enumerate(row) if value > 127))


def parse_scene(source: str) -> Scene:
    """`test:7?size=320x192&fps=10` -> the scene."""
    rest = source.removeprefix(PREFIX)
    seed, _, query = rest.partition("?")
    words: dict[str, str] = dict(parse_qsl(query, keep_blank_values=True))
    known = ("size", "fps", "lanes", "hold")
    for name in words:
        if name not in known:
            raise SourceError(f"{source}: {name!r} is not an option of test: cameras{meant(name, known)}")
    size = re.fullmatch(r"(\d{1,4})x(\d{1,4})", words.get("size", "160x96"))
    try:
        scene = Scene(
            seed=int(seed or "0"), width=int(size[1]) if size else 0, height=int(size[2]) if size else 0,
            fps=float(words.get("fps", "5")), lanes=int(words.get("lanes", "2")), hold=int(words.get("hold", "2")),
        )  # fmt: skip
    except ValueError as error:
        raise SourceError(f"{source}: {error}; write test:SEED?size=160x96&fps=5&lanes=2&hold=2") from None
    fits = scene.lanes * (SIDE + CELL) + CELL <= scene.height
    is_grid = scene.width % CELL == scene.height % CELL == 0 and max(scene.width, scene.height) <= _MOST_SIDE
    is_sane = scene.width >= 2 * SIDE and 0 < scene.fps <= 1000 and scene.lanes >= 1 and scene.hold >= 1
    if not (fits and is_grid and is_sane and scene.seed >= 0):
        raise SourceError(
            f"{source}: the size is a multiple of {CELL}, at least {2 * SIDE} wide and {SIDE + CELL} high per lane; "
            "fps, lanes and hold are positive, the seed is not negative"
        )
    return scene
