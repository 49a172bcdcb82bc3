"""Recordings that ranges of int8 are seen on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from openrknn.voice.audio import Samples, read_audio, resample
from openrknn.voice.errors import VoiceSetError

_ADVICE = "mixed precision needs some: `--calibrate FOLDER` names a folder with recordings"
_MOST_SECONDS = 120.0
"""Of one recording."""


def sounds_of(folder: Path, rate: int) -> list[Samples]:
    """The recordings (WAV) in a folder, at the model's rate; without any, an error that says how to give some."""
    found = []
    for path in sorted(one for one in folder.rglob("*") if one.suffix.lower() == ".wav" and one.is_file()):
        audio = read_audio(path)
        samples = resample(audio.samples[: round(_MOST_SECONDS * audio.rate)], audio.rate, rate)
        if len(samples) >= rate // 2 and np.abs(samples).max() > 0:
            found.append(samples)
    if not found:
        raise VoiceSetError(f"{folder}: no recording (.wav) of speech that is half a second or longer; {_ADVICE}")
    return found
