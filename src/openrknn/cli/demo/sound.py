"""The tones of a telephone, and the model that hears them."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openrknn.runtime.session import Session

__all__ = ["heard_keys"]

_RATE_HZ = 8000
_TONE_SAMPLES, _PAUSE_SAMPLES, _STEP_SAMPLES = 640, 320, 160
_QUIET = 0.02
_ROWS_HZ, _COLUMNS_HZ = (697, 770, 852, 941), (1209, 1336, 1477, 1633)  # ITU-T Q.23
_KEYS = ("123A", "456B", "789C", "*0#D")
_KEYS_OF = {
    key: (_ROWS_HZ[row], _COLUMNS_HZ[column]) for row, keys in enumerate(_KEYS) for column, key in enumerate(keys)
}
"""Key -> the frequencies of its two tones."""

Sound = npt.NDArray[np.float64]


def heard_keys(model: Path, number: str) -> tuple[float, str]:
    """Dial, listen: the seconds of one run, and the keys that were heard."""
    sound = _dialled(number)
    with Session(model) as session:
        _, samples, columns = session.inputs[0].shape
        starts = range(0, len(sound) - samples + 1, _STEP_SAMPLES)
        frames = np.stack([sound[start : start + samples] for start in starts], axis=1).astype(np.float32)
        keys, runs, started = "", 0, time.perf_counter()
        for first in range(0, frames.shape[1], columns):
            part = np.zeros((1, samples, columns), np.float32)
            count = min(columns, frames.shape[1] - first)
            part[0, :, :count] = frames[:, first : first + count]
            powers = session.run({"frames": part})["tones"][0, :, :count]
            keys += "".join(_key(column) for column in powers.T)
            runs += 1
        seconds = (time.perf_counter() - started) / runs
    folded = (key for place, key in enumerate(keys) if place == 0 or keys[place - 1] != key)
    return seconds, "".join(folded).replace(".", "")


def _dialled(number: str) -> Sound:
    at = np.arange(_TONE_SAMPLES) / _RATE_HZ
    parts = []
    for key in number:
        low, high = _KEYS_OF[key]
        parts += [0.4 * (np.sin(2 * np.pi * low * at) + np.sin(2 * np.pi * high * at)), np.zeros(_PAUSE_SAMPLES)]
    sound = np.concatenate(parts)
    return np.asarray(sound + np.random.default_rng(0).normal(0, 0.05, len(sound)))


def _key(powers: npt.NDArray[np.float32]) -> str:
    """The strongest tone of each kind, or a dot for silence."""
    row, column = int(powers[:4].argmax()), int(powers[4:].argmax())
    return _KEYS[row][column] if min(powers[row], powers[4 + column]) > _QUIET else "."
