"""Pictures with what was found in them. Needs Pillow."""

from __future__ import annotations

import colorsys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from openrknn.vision.decoders.pose import PERSON_POINTS, SKELETON
from openrknn.vision.heads import Array
from openrknn.vision.labels import name_of
from openrknn.vision.pictures import Pixels, to_image
from openrknn.vision.results import Areas, Found, Objects, Ranking, Reading

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

Colour = tuple[int, int, int]
_GOLDEN = 0.61803398875
"""Steps of the golden ratio around the circle of hues: neighbours in number are far apart in colour."""
_VISIBLE = 0.5
_BLEND = 0.45
_LISTED = 5
_WHITE, _DARK = (255, 255, 255), (24, 24, 28)
_SMALLEST_SIDE = 480
"""Smaller pictures are enlarged before anything is written on them."""


def colour(number: int) -> Colour:
    """A colour of its own for every class."""
    red, green, blue = colorsys.hsv_to_rgb((0.02 + number * _GOLDEN) % 1.0, 0.85, 0.95)
    return round(255 * red), round(255 * green), round(255 * blue)


def annotated(pixels: Pixels, found: Found, names: tuple[str, ...] | None = None) -> Image:
    """The picture with boxes, masks, points, names: whatever was found."""
    sheet = _Sheet(pixels)
    match found:
        case Objects() if found.texts is not None or (found.corners is not None and names is None):
            sheet.text(found)
        case Objects():
            sheet.objects(found, names)
        case Ranking():
            lines = zip(found.classes[:_LISTED].tolist(), found.probabilities[:_LISTED].tolist(), strict=True)
            sheet.panel([(f"{name_of(names, number)}  {100 * share:.1f} %", colour(number)) for number, share in lines])
        case Areas():
            sheet.areas(found, names)
        case Reading():
            sheet.panel([(f"{found.text}  {100 * found.score:.0f} %", colour(0))])
    return sheet.image


class _Sheet:
    """A picture that is drawn on; sizes follow the picture's."""

    def __init__(self, pixels: Pixels) -> None:
        from PIL import ImageFont
        from PIL.Image import Resampling
        from PIL.ImageDraw import Draw

        image = to_image(pixels)
        side = max(image.size)
        self.zoom = max(-(-_SMALLEST_SIDE // side), 1)
        self.image = image.resize((image.width * self.zoom, image.height * self.zoom), Resampling.BICUBIC)
        self.draw: ImageDraw = Draw(self.image)
        self.line = max(round(max(self.image.size) / 300), 2)
        self.font: Any = ImageFont.load_default(max(round(max(self.image.size) / 45), 12))

    def objects(self, found: Objects, names: tuple[str, ...] | None) -> None:
        if found.masks is not None:
            self._masks(found.masks, found.classes)
        for row in reversed(range(len(found))):  # the best is drawn last, on top
            self._object(found, row, names)

    def _object(self, found: Objects, row: int, names: tuple[str, ...] | None) -> None:
        number = int(found.classes[row])
        shade = colour(number)
        corners = _corners(found.boxes[row]) if found.corners is None else found.corners[row]
        points = [(float(x) * self.zoom, float(y) * self.zoom) for x, y in corners]
        self.draw.line([*points, points[0], points[1]], fill=shade, width=self.line, joint="curve")
        if found.keypoints is not None:
            self._keypoints(found.keypoints[row], shade)
        self._label(points, f"{name_of(names, number)} {100 * float(found.scores[row]):.0f} %", shade)

    def text(self, found: Objects) -> None:
        """Lines of text with thin frames; what they say is written on a white sheet beside the picture."""
        from PIL.Image import new
        from PIL.ImageDraw import Draw

        assert found.corners is not None  # text always has them
        for row, corners in enumerate(found.corners):
            points = [(float(x) * self.zoom, float(y) * self.zoom) for x, y in corners]
            self.draw.polygon(points, outline=colour(row), width=max(self.line // 2, 1))
        if found.texts is None:
            return
        wide = new("RGB", (2 * self.image.width, self.image.height), _WHITE)
        wide.paste(self.image, (0, 0))
        self.draw = Draw(wide)
        for row, text in enumerate(found.texts):
            left, top, right, bottom = (float(value) * self.zoom for value in found.boxes[row])
            self._written(text, (left + self.image.width, top, right + self.image.width, bottom))
        self.image = wide

    def _written(self, text: str, box: tuple[float, float, float, float]) -> None:
        """A line as large as its box allows."""
        from PIL import ImageFont

        left, top, right, bottom = box
        size = max(0.7 * (bottom - top), 8.0)
        width = self.draw.textlength(text, font=ImageFont.load_default(size))
        font = ImageFont.load_default(max(min(size, size * (right - left) / max(width, 1.0)), 8.0))
        self.draw.text((left, (top + bottom) / 2), text, font=font, fill=_DARK, anchor="lm")

    def _label(self, points: Sequence[tuple[float, float]], text: str, shade: Colour) -> None:
        if not text:
            return
        left, top = min(points)[0], min(y for _, y in points)
        x0, y0, x1, y1 = self.draw.textbbox((0, 0), text, font=self.font)
        width, height = x1 - x0 + 6, y1 - y0 + 6
        left = min(max(left - self.line / 2, 0), max(self.image.width - width, 0))
        top = top - height if top >= height else top
        self.draw.rectangle((left, top, left + width, top + height), fill=shade)
        self.draw.text((left + 3 - x0, top + 3 - y0), text, font=self.font, fill=_readable_on(shade))

    def _keypoints(self, points: Array, shade: Colour) -> None:
        places = [(float(x) * self.zoom, float(y) * self.zoom, float(sure)) for x, y, sure in points]
        if len(places) == PERSON_POINTS:
            for first, second in SKELETON:
                if min(places[first][2], places[second][2]) >= _VISIBLE:
                    self.draw.line([places[first][:2], places[second][:2]], fill=shade, width=self.line)
        radius = self.line * 1.4
        for x, y, sure in places:
            if sure >= _VISIBLE:
                self.draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_WHITE, outline=shade)

    def _masks(self, masks: Array, classes: Array) -> None:
        pixels = np.asarray(self.image, np.float32).copy()
        for mask, number in zip(masks, classes.tolist(), strict=True):
            big = mask.repeat(self.zoom, axis=0).repeat(self.zoom, axis=1)
            pixels[big] = pixels[big] * (1 - _BLEND) + np.array(colour(number), np.float32) * _BLEND
        self._repaint(pixels)

    def areas(self, found: Areas, names: tuple[str, ...] | None) -> None:
        shares = found.shares()
        palette = np.zeros((max(shares) + 1, 3), np.float32)
        for number in shares:
            palette[number] = colour(number)
        big = found.classes.repeat(self.zoom, axis=0).repeat(self.zoom, axis=1)
        self._repaint(np.asarray(self.image, np.float32) * (1 - _BLEND) + palette[big] * _BLEND)
        largest = list(shares.items())[:_LISTED]
        self.panel([(f"{name_of(names, number)}  {100 * share:.0f} %", colour(number)) for number, share in largest])

    def _repaint(self, pixels: Array) -> None:
        from PIL.ImageDraw import Draw

        self.image = to_image(np.asarray(np.rint(pixels), np.uint8))
        self.draw = Draw(self.image)

    def panel(self, rows: Sequence[tuple[str, Colour]]) -> None:
        """Lines of text in the upper left corner, each with its colour."""
        boxes = [self.draw.textbbox((0, 0), text, font=self.font) for text, _ in rows]
        height = max((box[3] - box[1] for box in boxes), default=0) + 8
        width = max((box[2] - box[0] for box in boxes), default=0) + height + 12
        self.draw.rectangle((0, 0, width, height * len(rows) + 8), fill=_DARK)
        for number, (text, shade) in enumerate(rows):
            top = 6 + number * height
            self.draw.rectangle((6, top + 2, 6 + height - 10, top + height - 6), fill=shade)
            self.draw.text((height + 4, top - 1), text, font=self.font, fill=_WHITE)


def _corners(box: Array) -> list[tuple[float, float]]:
    left, top, right, bottom = map(float, box)
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _readable_on(shade: Colour) -> Colour:
    red, green, blue = shade
    return _DARK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else _WHITE
