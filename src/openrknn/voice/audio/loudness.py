"""Loudness as ITU-R BS.1770 measures it, in LUFS: K-weighted, in blocks of 400 ms, silence left out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from openrknn.voice.audio.sound import Samples

_BLOCK, _STEP = 0.4, 0.1
_SILENCE, _BELOW = -70.0, -10.0
_OFFSET = -0.691


def lufs(samples: npt.NDArray[np.float32], rate: int) -> float:
    """Integrated loudness of one channel; minus infinity for silence. Less than a block counts as one."""
    weighted = _weighted(np.asarray(samples, np.float64), rate)
    size, step = round(_BLOCK * rate), round(_STEP * rate)
    starts = range(0, max(1, len(weighted) - size + 1), step)
    powers = np.array([np.mean(weighted[start : start + size] ** 2) if len(weighted) else 0.0 for start in starts])
    powers = _above(powers, _SILENCE)
    if not len(powers):
        return -np.inf
    return _level(float(_above(powers, _level(float(powers.mean())) + _BELOW).mean()))


def _above(powers: npt.NDArray[np.float64], floor: float) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = powers[np.array([_level(float(power)) > floor for power in powers], bool)]
    return found


def _level(power: float) -> float:
    return _OFFSET + 10 * np.log10(power) if power > 0 else -np.inf


def _weighted(samples: npt.NDArray[np.float64], rate: int) -> npt.NDArray[np.float64]:
    """K-weighting, a shelf and a high-pass, applied in the frequency domain."""
    if not len(samples):
        return samples
    size = 1 << int(np.ceil(np.log2(len(samples) + rate // 4 + 1)))
    spectrum = np.fft.rfft(samples, size)
    z = np.exp(-2j * np.pi * np.arange(len(spectrum)) / size)
    for b, a in (_shelf(rate), _high_pass(rate)):
        spectrum = spectrum * (b[0] + b[1] * z + b[2] * z**2) / (a[0] + a[1] * z + a[2] * z**2)
    found: npt.NDArray[np.float64] = np.fft.irfft(spectrum, size)[: len(samples)]
    return found


_Filter = tuple[tuple[float, float, float], tuple[float, float, float]]


def _shelf(rate: int) -> _Filter:
    """The head: +4 dB above 1.7 kHz. The constants give the coefficients of the standard at 48 kHz."""
    k, q = np.tan(np.pi * 1681.974450955533 / rate), 0.7071752369554196
    high = 10 ** (3.999843853973347 / 20)
    middle = high**0.4996667741545416
    a0 = 1 + k / q + k * k
    b = ((high + middle * k / q + k * k) / a0, 2 * (k * k - high) / a0, (high - middle * k / q + k * k) / a0)
    return b, (1.0, 2 * (k * k - 1) / a0, (1 - k / q + k * k) / a0)


def _high_pass(rate: int) -> _Filter:
    k, q = np.tan(np.pi * 38.13547087602444 / rate), 0.5003270373238773
    a0 = 1 + k / q + k * k
    return (1.0, -2.0, 1.0), (1.0, 2 * (k * k - 1) / a0, (1 - k / q + k * k) / a0)


def at_loudness(samples: Samples, rate: int, target: float) -> Samples:
    """Louder or quieter to so many LUFS; never so loud that a sample leaves -1 to 1."""
    level, peak = lufs(samples, rate), float(np.abs(samples).max(initial=0.0))
    if not np.isfinite(level) or peak <= 0:
        return samples
    return np.asarray(samples * np.float32(min(10 ** ((target - level) / 20), 1 / peak)), np.float32)
