"""Sound that comes in from a caller: checked, and at the rate that a model takes."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from openrknn.voice.audio import Audio, Samples, read_audio, resample
from openrknn.voice.errors import AudioError

AnySound: TypeAlias = str | os.PathLike[str] | bytes | Audio | npt.NDArray[Any]
"""A file, the bytes of one, a recording, or an array with its rate beside it."""


def samples_of(block: npt.ArrayLike) -> Samples:
    """A block of a stream: one channel of finite floats (integers are scaled); any length, none included."""
    array = np.asarray(block)
    if array.ndim != 1:
        raise AudioError(f"a block of sound is [samples], one channel; this one has the shape {array.shape}")
    if not array.size:
        return np.zeros(0, np.float32)
    return Audio.of(array, 1).samples


def audio_of(sound: AnySound, rate: int | None, wanted: int) -> Audio:
    """A whole recording at the rate `wanted`; `rate` is that of an array, which does not know its own."""
    if isinstance(sound, Audio):
        found = Audio.of(sound.samples, sound.rate)
    elif isinstance(sound, np.ndarray):
        found = Audio.of(sound, wanted if rate is None else rate)
    elif isinstance(sound, str | os.PathLike | bytes):
        found = read_audio(sound)
    else:
        raise AudioError(f"sound is a path, bytes, an Audio or an array, not {type(sound).__name__}")
    return found if found.rate == wanted else Audio(resample(found.samples, found.rate, wanted), wanted)
