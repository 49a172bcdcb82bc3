"""Moonshine's encoder in mixed precision: which of its layers are int8, and the sound that their ranges are seen on.

int8 are the first products of the encoder's perceptrons (fc1). More of it in int8 (fc2, too, or the projections, or the
two convolutions) changed more than 2 % of the words that float hears.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openrknn.voice.audio import Samples, read_audio, resample
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.make.moonshine_weights import Array
from openrknn.voice.moonshine import Stem, padded, stem_frames

__all__ = ["calibration", "fp16_layers", "sounds_of"]

_LONGEST = 10.0
"""Seconds. Longer buckets take the ranges of the shorter ones: a layer's numbers do not depend on the length, and all
values of the float model over 30 s would take gigabytes."""
_PIECES = 12
"""Pieces of sound over all buckets."""
_FILLED = (0.7, 1.0, 0.85)
"""How much of its bucket a piece fills, in turn: the mask is an input, too, and has to be seen at work."""
_MOST_SECONDS = 120.0
"""Of one recording."""
_CHOSEN = ("MatMul", "Conv", "Add", "Mul", "Softmax")
"""Operators that would be int8 if they were not named."""


def sounds_of(folder: Path, rate: int, advice: str) -> list[Samples]:
    """The recordings (WAV) in a folder, at the model's rate; without any, the error gives `advice`."""
    found = []
    for path in sorted(one for one in folder.rglob("*") if one.suffix.lower() == ".wav" and one.is_file()):
        audio = read_audio(path)
        samples = resample(audio.samples[: round(_MOST_SECONDS * audio.rate)], audio.rate, rate)
        if len(samples) >= rate // 2 and np.abs(samples).max() > 0:
            found.append(samples)
    if not found:
        raise VoiceSetError(f"{folder}: no recording (.wav) of speech that is half a second or longer; {advice}")
    return found


def calibration(stem: Stem, sounds: Sequence[Samples], buckets: Sequence[float], rate: int) -> list[dict[str, Array]]:
    """Inputs of the encoder: pieces of the sounds, in turn for each bucket that is not too long."""
    sizes = [round(seconds * rate) for seconds in buckets if seconds <= _LONGEST] or [round(buckets[0] * rate)]
    pieces = [_Pieces(sound) for sound in sounds]
    feeds = []
    for number in range(max(_PIECES, len(sizes))):
        size = sizes[number % len(sizes)]
        samples = pieces[number % len(pieces)].take(int(size * _FILLED[number % len(_FILLED)]))
        frames, mask = padded(stem(samples), stem_frames(size))
        feeds.append({"frames": frames, "mask": mask})
    return feeds


class _Pieces:
    """A recording that is taken piece by piece, and again from its beginning."""

    def __init__(self, samples: Samples) -> None:
        self._samples, self._at = samples, 0

    def take(self, size: int) -> Samples:
        """The next `size` samples, or all if there are fewer."""
        if self._at + size > len(self._samples):
            self._at = 0
        piece = self._samples[self._at : self._at + size]
        self._at += size
        return piece


def fp16_layers(graph: Any) -> list[str]:
    """Names of what stays in fp16: everything but fc1 and its bias."""
    return [node.name for node in graph.graph.node if node.op_type in _CHOSEN and ".mlp.fc1" not in node.name]
