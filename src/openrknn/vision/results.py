"""What decoders find. Coordinates are pixels; x to the right, y down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.vision.geometry import Placement
from openrknn.vision.heads import Array, Floats

Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Objects:
    """Things with a place. All arrays have one row per object, the best first."""

    boxes: Floats
    """[n, 4]: left, top, right, bottom."""
    scores: Floats
    """[n], 0 to 1."""
    classes: Integers
    """[n]"""
    corners: Floats | None = None
    """[n, 4, 2]: of turned boxes and of text."""
    keypoints: Floats | None = None
    """[n, k, 3]: x, y, and how sure it is to be visible."""
    masks: Array | None = None
    """[n, height, width] of booleans, over the whole frame or picture."""
    texts: tuple[str, ...] | None = None
    """What it says: lines that were read."""
    note: str = ""
    """What is strange about them, in words."""

    @classmethod
    def none(cls) -> Objects:
        """Nothing was found."""
        return cls(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), np.zeros(0, np.int64))

    @classmethod
    def joined(cls, parts: Iterable[Objects]) -> Objects:
        """Boxes, scores and classes of several strides as one."""
        rows = ((part.boxes, part.scores, part.classes) for part in parts)
        boxes, scores, classes = (np.concatenate(arrays) for arrays in zip(*rows, strict=True))
        return cls(boxes, scores, classes)

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, rows: Array) -> Objects:
        """Some of them, in this order."""

        def some(part: Array | None) -> Array | None:
            return None if part is None else part[rows]

        return replace(
            self,
            boxes=self.boxes[rows],
            scores=self.scores[rows],
            classes=self.classes[rows],
            corners=some(self.corners),
            keypoints=some(self.keypoints),
            masks=some(self.masks),
            texts=None if self.texts is None else tuple(self.texts[row] for row in rows),
        )

    def with_area(self, family: str) -> Objects:
        """Without boxes that have no area. Detectors do not find such things: the note names the likely mistake."""
        with np.errstate(invalid="ignore"):  # infinite corners
            is_box = np.all(self.boxes[:, 2:4] > self.boxes[:, :2], axis=1)  # NaN is no box either
        if is_box.all():
            return self
        note = (
            f"{np.count_nonzero(~is_box)} of {len(self)} boxes have no area and were left out: are these outputs "
            f"really those of {family}? Name another family, or decode the arrays of `Session.run` yourself"
        )
        return replace(self.take(np.flatnonzero(is_box)), note="; ".join(filter(None, (self.note, note))))

    def to_picture(self, placement: Placement) -> Objects:
        """From the pixels of the model's frame to those of the picture."""
        keypoints = self.keypoints
        if keypoints is not None:
            keypoints = np.concatenate([placement.to_picture(keypoints[..., :2]), keypoints[..., 2:]], -1)
        return replace(
            self,
            boxes=placement.boxes_to_picture(self.boxes),
            corners=None if self.corners is None else placement.to_picture(self.corners),
            keypoints=keypoints,
            masks=None if self.masks is None else placement.maps_to_picture(self.masks),
        )


@dataclass(frozen=True, slots=True)
class Ranking:
    """Classes of the whole picture, the most probable first."""

    classes: Integers
    probabilities: Floats
    scores: Floats
    """As the model gives them."""

    def to_picture(self, placement: Placement) -> Ranking:
        """It has no place."""
        return self


@dataclass(frozen=True, slots=True)
class Areas:
    """A class for every pixel."""

    classes: Array
    """[height, width] of whole numbers."""

    def shares(self) -> dict[int, float]:
        """Class -> part of the picture, the largest first."""
        numbers, counts = np.unique(self.classes, return_counts=True)
        order = np.argsort(-counts, kind="stable")
        return {int(numbers[at]): float(counts[at]) / self.classes.size for at in order}

    def to_picture(self, placement: Placement) -> Areas:
        """From the pixels of the model's frame to those of the picture."""
        return Areas(placement.maps_to_picture(self.classes[None])[0])


@dataclass(frozen=True, slots=True)
class Reading:
    """One line of text."""

    text: str
    score: float
    """The mean probability of its characters."""

    def to_picture(self, placement: Placement) -> Reading:
        """It is about the whole picture."""
        return self


Found: TypeAlias = Objects | Ranking | Areas | Reading
