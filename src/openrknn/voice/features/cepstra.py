"""Mel-frequency cepstral coefficients: the cosine transform of log mel bands."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.errors import AudioError
from openrknn.voice.features.frames import Floats
from openrknn.voice.features.log_mel import Features, KaldiOptions, decibels, kaldi_bands, mel_spectrogram

__all__ = ["dct_matrix", "kaldi_mfcc", "mfcc"]


def dct_matrix(coefficients: int, bands: int) -> Floats:
    """[coefficients, bands]: the orthonormal cosine transform of the second kind."""
    if not 1 <= coefficients <= bands:
        raise AudioError(f"{coefficients} coefficients cannot be had of {bands} bands")
    rows = np.arange(coefficients)[:, None]
    made: Floats = np.sqrt(2 / bands) * np.cos(np.pi / bands * (np.arange(bands) + 0.5) * rows)
    made[0] = np.sqrt(1 / bands)
    return made


def mfcc(samples: npt.ArrayLike, rate: int, *, coefficients: int = 20, **options: Any) -> Features:
    """[coefficients, frames], as librosa.feature.mfcc has them; `options` are those of `mel_spectrogram`."""
    logs = decibels(mel_spectrogram(samples, rate, **options))
    return (dct_matrix(coefficients, len(logs)) @ logs).astype(np.float32)


def kaldi_mfcc(
    samples: npt.ArrayLike, options: KaldiOptions | None = None, *, coefficients: int = 13, lifter: float = 22.0
) -> Features:
    """[frames, coefficients], as Kaldi has them without energy; `lifter` 0: none."""
    chosen = options or KaldiOptions()
    made = kaldi_bands(samples, chosen) @ dct_matrix(coefficients, chosen.bands).T
    if lifter:
        made = made * (1 + 0.5 * lifter * np.sin(np.pi * np.arange(coefficients) / lifter))
    return made.astype(np.float32)
