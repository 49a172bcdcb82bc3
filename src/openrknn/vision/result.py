"""`Result`: one picture and what was found in it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from openrknn.quantities import count_of
from openrknn.vision.frames import FrameImage
from openrknn.vision.heads import Array
from openrknn.vision.labels import name_of
from openrknn.vision.pictures import Pixels
from openrknn.vision.results import Areas, Found, Objects, Ranking, Reading

if TYPE_CHECKING:
    from PIL.Image import Image

_QUALITY = 92


@dataclass(frozen=True, slots=True)
class Result:
    """One picture, what is in it, and how long that took. `found` is None where the picture could not be read."""

    name: str
    image: Pixels | FrameImage | None = field(repr=False)
    task: str
    found: Found | None
    labels: tuple[str, ...] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    problem: str = ""
    prepare_seconds: float = 0.0
    run_seconds: float = 0.0
    decode_seconds: float = 0.0
    taken: float = 0.0
    """`time.perf_counter()` when the picture was read from its source; 0 where that is not known."""
    capture_seconds: float = 0.0
    """Of a frame: how long capturing or decoding took, waiting included."""
    copies: int | None = None
    """Of a frame: how often the CPU has copied or converted it on its way from the source to the NPU."""
    converter: str = ""
    """Of a frame: what scaled it and converted its colours: rga, native or numpy."""

    @property
    def pixels(self) -> Pixels | None:
        """The picture: uint8 [height, width, 3], red first. Of a frame it is converted when it is first asked for."""
        return self.image.pixels() if isinstance(self.image, FrameImage) else self.image

    @property
    def size(self) -> tuple[int, int] | None:
        """Width and height; None where there is no picture."""
        if self.image is None:
            return None
        if isinstance(self.image, FrameImage):
            return self.image.width, self.image.height
        return self.image.shape[1], self.image.shape[0]

    @classmethod
    def unreadable(cls, name: str, task: str, problem: str) -> Result:
        """The result for a picture that could not be read."""
        return cls(name, None, task, None, problem=problem)

    def label(self, number: int) -> str:
        """The name of a class."""
        return name_of(self.labels, number)

    def annotated(self) -> Image:
        """The picture with what was found drawn into it, as a Pillow image."""
        from openrknn.vision.draw import annotated

        pixels = self.pixels
        if pixels is None or self.found is None:
            raise ValueError(f"there is nothing to draw: {self.problem}")
        return annotated(pixels, self.found, self.labels)

    def save(self, path: str | os.PathLike[str]) -> None:
        """The annotated picture as a file."""
        self.annotated().save(path, quality=_QUALITY)

    def with_texts(self, texts: tuple[str, ...], scores: Array, seconds: float) -> Result:
        """This result with the lines of text; empty lines are left out."""
        if not isinstance(self.found, Objects):
            raise TypeError("only boxes of text can be read")
        read = replace(self.found, texts=texts, scores=scores.astype(np.float32))
        kept = np.array([row for row, text in enumerate(texts) if text.strip()], np.int64)
        return replace(self, found=read.take(kept), run_seconds=self.run_seconds + seconds)

    def in_words(self) -> str:
        """What was found, in a few words; empty for a ranking and for text that was read."""
        match self.found:
            case Objects() if self.task == "text":
                return count_of(len(self.found), "line")
            case Objects():
                counts = Counter(self.label(number) for number in self.found.classes.tolist())
                return ", ".join(f"{count} {name}" for name, count in counts.most_common()) or "nothing found"
            case Areas():
                return count_of(len(self.found.shares()), "area")
            case Reading() if not self.found.text:
                return "nothing to read"
            case _:
                return ""

    def rows(self, top: int = 5) -> Iterator[dict[str, Any]]:
        """What was found, one dictionary each, with plain numbers: for JSON. `top`: how many classes of a ranking."""
        match self.found:
            case Objects():
                yield from (self._object(self.found, row) for row in range(len(self.found)))
            case Ranking():
                best = self.found.classes[:top].tolist(), self.found.probabilities[:top].tolist()
                for number, probability in zip(*best, strict=True):
                    yield {"class": number, "label": self.label(number), "probability": probability}
            case Areas():
                for number, share in self.found.shares().items():
                    yield {"class": number, "label": self.label(number), "share": share}
            case Reading():
                yield {"text": self.found.text, "score": self.found.score}

    def _object(self, found: Objects, row: int) -> dict[str, Any]:
        number = int(found.classes[row])
        entry: dict[str, Any] = {"score": float(found.scores[row]), "box": _numbers(found.boxes[row])}
        if found.texts is not None:
            entry = {"text": found.texts[row], **entry}
        elif self.task != "text":
            entry = {"class": number, "label": self.label(number), **entry}
        if found.corners is not None:
            entry["corners"] = _numbers(found.corners[row])
        if found.keypoints is not None:
            entry["keypoints"] = _numbers(found.keypoints[row])
        if found.masks is not None:
            entry["mask_pixels"] = int(found.masks[row].sum())
        return entry


def _numbers(values: Array) -> list[Any]:
    rounded: list[Any] = np.round(values.astype(np.float64), 3).tolist()
    return rounded
