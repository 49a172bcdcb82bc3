"""What is expected for a sample: the ground truth of each task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Segment: TypeAlias = "list[list[float]] | Mapping[str, Any]"
"""Polygons (x, y, x, y ...) or run lengths, as COCO stores them."""


@dataclass(frozen=True, slots=True, eq=False)
class ObjectTruth:
    """The objects of one image. Coordinates are pixels, or parts of the image where `is_relative`."""

    boxes: Array
    """[n, 4]: left, top, right, bottom."""
    classes: Array
    """[n] of int64: numbers of the dataset's classes."""
    crowd: Array
    """[n] of bool: regions that are neither right nor wrong to be found."""
    areas: Array | None = None
    """[n]: what the size of an object is judged by; the area of the box where it is None."""
    corners: Array | None = None
    """[n, 4, 2]: oriented boxes."""
    keypoints: Array | None = None
    """[n, k, 3]: x, y, and 0 (not labelled), 1 (hidden) or 2 (visible)."""
    segments: Sequence[Segment] | None = None
    is_relative: bool = False

    def __len__(self) -> int:
        return len(self.boxes)

    def in_pixels(self, width: int, height: int) -> ObjectTruth:
        """The same in pixels of an image of this size."""
        if not self.is_relative:
            return self
        size = np.array((width, height), np.float64)
        keypoints = None
        if self.keypoints is not None:
            keypoints = np.concatenate([self.keypoints[..., :2] * size, self.keypoints[..., 2:]], axis=-1)
        segments = None
        if self.segments is not None:
            # `is_relative` is only set by readers whose segments are polygons.
            scaled = [[(np.array(ring).reshape(-1, 2) * size).reshape(-1).tolist() for ring in one]
                      for one in self.segments]  # fmt: skip
            segments = scaled
        return ObjectTruth(
            boxes=self.boxes * np.tile(size, 2),
            classes=self.classes,
            crowd=self.crowd,
            corners=None if self.corners is None else self.corners * size,
            keypoints=keypoints,
            segments=segments,
        )

    def box_areas(self) -> Array:
        """[n]: `areas`, or those of the boxes."""
        if self.areas is not None:
            return self.areas
        return np.asarray(np.prod(np.maximum(self.boxes[:, 2:] - self.boxes[:, :2], 0), axis=1))


@dataclass(frozen=True, slots=True)
class ClassTruth:
    """One class for the whole image."""

    number: int


@dataclass(frozen=True, slots=True)
class AreaTruth:
    """A class for every pixel, in an image file of numbers."""

    path: Path


@dataclass(frozen=True, slots=True)
class TextTruth:
    """What an image or a recording says."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class LinesTruth:
    """Where lines of text are, and what they say; None: unreadable, neither right nor wrong to be found."""

    corners: tuple[Array, ...]
    """[k, 2] each."""
    texts: tuple[str | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TensorTruth:
    """Inputs and expected outputs as arrays."""

    inputs: Mapping[str, Any] = field(default_factory=dict)
    """Name -> array, or the path of an image or a .npy file; the name "" is the only input."""
    expected: Mapping[str, Array] = field(default_factory=dict)


Truth: TypeAlias = ObjectTruth | ClassTruth | AreaTruth | TextTruth | LinesTruth | TensorTruth


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One item of a dataset."""

    name: str
    truth: Truth
    path: Path | None = None
    """The image or the recording; None for JSON lines, whose inputs are in the truth."""


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Samples with what is expected of them."""

    path: Path
    kind: str
    """In words: "COCO instances", "YOLO labels", "class folders" ..."""
    task: str
    """detect, segment, pose, obb, classify, areas, read, text, speech or tensors."""
    samples: tuple[Sample, ...]
    names: tuple[str, ...] | None = None
    """Of the classes, by number; None where the dataset does not say."""
    keys: tuple[str, ...] | None = None
    """Of the classes, by number: identifiers such as ImageNet's n01440764, where the dataset has them."""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.samples)
