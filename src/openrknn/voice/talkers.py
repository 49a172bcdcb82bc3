"""What a family of text-to-speech models offers to `Speaker`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Scales:
    """How much chance, and how slow."""

    noise: float
    length: float
    noise_w: float


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence, or a piece of a long one, as the model takes it."""

    phonemes: str
    ids: tuple[int, ...]


class Talker(Protocol):
    """A voice that is open."""

    rate: int
    speakers: dict[str, int]
    speaker_count: int
    default_speaker: int
    default_scales: Scales
    has_noise: bool
    """Whether the model draws noise, which a seed and two scales steer."""

    @property
    def times(self) -> Mapping[str, float]:
        """Seconds of each stage since it was opened."""

    def language(self, speaker: int) -> str:
        """The voice of espeak-ng for a speaker; empty: none."""

    def said(self, text: str, speaker: int, language: str = "") -> list[Said]:
        """Sentences and their numbers; `language`: other than that of the voice."""

    def speak(
        self, ids: Sequence[int], scales: Scales, speaker: int, random: np.random.Generator
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Pieces of sound, in order."""

    def close(self) -> None:
        """Let go of the networks."""
