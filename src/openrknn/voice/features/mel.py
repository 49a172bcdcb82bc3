"""Mel bands: triangles over the bins of a spectrum, evenly spaced on a scale that is closer to hearing."""

from __future__ import annotations

import numpy as np

from openrknn.voice.errors import AudioError
from openrknn.voice.features.frames import Floats, count

__all__ = ["hertz", "kaldi_banks", "mel_banks", "mels"]

_KNEE = 1000.0
"""Slaney: straight lines below (200 / 3 Hz a mel), logarithmic above (27 mels a factor of 6.4)."""
_STRAIGHT = 200.0 / 3
_STEEP = np.log(6.4) / 27


def mels(frequency: Floats | float, scale: str = "slaney") -> Floats:
    """Hertz as mels, by Slaney's scale, HTK's or Kaldi's (HTK's with its factor in full)."""
    hz = np.asarray(frequency, np.float64)
    if scale == "slaney":
        above = _KNEE / _STRAIGHT + np.log(np.maximum(hz, _KNEE) / _KNEE) / _STEEP
        return np.where(hz < _KNEE, hz / _STRAIGHT, above)
    return np.asarray(_factor(scale) * np.log(1 + hz / 700), np.float64)


def hertz(mel: Floats | float, scale: str = "slaney") -> Floats:
    """The other way."""
    number = np.asarray(mel, np.float64)
    if scale == "slaney":
        knee = _KNEE / _STRAIGHT
        return np.where(number < knee, number * _STRAIGHT, _KNEE * np.exp((np.maximum(number, knee) - knee) * _STEEP))
    return np.asarray(700 * (np.exp(number / _factor(scale)) - 1), np.float64)


def mel_banks(
    rate: int, size: int, bands: int = 128, *, low: float = 0.0, high: float | None = None, scale: str = "slaney",
    norm: bool = True,
) -> Floats:  # fmt: skip
    """[bands, size // 2 + 1] weights, as librosa.filters.mel has them; with `norm` each triangle has the same area."""
    top = _edges(rate, low, rate / 2 if high is None else high)
    count(size, "the size of a frame")
    ends = np.linspace(mels(low, scale), mels(top, scale), count(bands, "the number of mel bands") + 2)
    middles = hertz(ends, scale)
    widths = np.diff(middles)
    slopes = middles[:, None] - np.arange(size // 2 + 1) * rate / size
    rising = -slopes[:-2] / widths[:-1, None]
    falling = slopes[2:] / widths[1:, None]
    weights = np.maximum(0, np.minimum(rising, falling))
    if norm:
        weights *= (2 / (middles[2:] - middles[:-2]))[:, None]
    return weights


def kaldi_banks(rate: int, size: int, bands: int = 23, *, low: float = 20.0, high: float = 0.0) -> Floats:
    """[bands, size // 2 + 1] weights of Kaldi: straight in mels, not in hertz; `high` up to 0 counts from Nyquist."""
    top = _edges(rate, low, high if high > 0 else high + rate / 2)
    ends = np.linspace(mels(low, "kaldi"), mels(top, "kaldi"), count(bands, "the number of mel bands") + 2)[:, None]
    bins = mels(np.arange(count(size, "the size of a frame") // 2) * rate / size, "kaldi")
    rising = (bins - ends[:-2]) / (ends[1:-1] - ends[:-2])
    falling = (ends[2:] - bins) / (ends[2:] - ends[1:-1])
    weights = np.maximum(0, np.minimum(rising, falling))
    return np.pad(weights, ((0, 0), (0, size // 2 + 1 - weights.shape[1])))


def _factor(scale: str) -> float:
    if scale == "htk":
        return float(2595 / np.log(10))
    if scale == "kaldi":
        return 1127.0
    raise AudioError(f"no mel scale is called {scale!r}; there are slaney, htk and kaldi")


def _edges(rate: int, low: float, high: float) -> float:
    if not 0 <= low < high <= rate / 2:
        raise AudioError(f"mel bands from {low} to {high} Hz do not fit into sound of {rate} samples a second")
    return high
