"""Windows, frames, their spectra, and mel bands over the bins of a spectrum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from openrknn.voice.errors import AudioError

Floats = npt.NDArray[np.float64]

AT_ONCE = 2048
"""Frames whose spectra are computed together: an hour of sound needs no more memory than a minute."""
_LARGEST = 1 << 20
"""Samples of a frame, or mel bands. More is a mistake."""
_PADDING = {"reflect": "reflect", "zeros": "constant", "edge": "edge"}


def window(name: str, size: int, *, periodic: bool = True) -> Floats:
    """`hann`, `hamming`, `povey` (Kaldi's) or `boxcar`; periodic ones are those of `size + 1` without the last."""
    count(size, "the size of a window")
    if size == 1:
        return np.ones(1)
    turn = 2 * np.pi * np.arange(size) / (size if periodic else size - 1)
    if name == "hann":
        made: Floats = 0.5 - 0.5 * np.cos(turn)
    elif name == "hamming":
        made = 0.54 - 0.46 * np.cos(turn)
    elif name == "povey":
        made = (0.5 - 0.5 * np.cos(turn)) ** 0.85
    elif name == "boxcar":
        made = np.ones(size)
    else:
        raise AudioError(f"no window is called {name!r}; there are hann, hamming, povey and boxcar")
    return made


def stft(
    samples: npt.ArrayLike, *, size: int = 2048, hop: int | None = None, length: int | None = None,
    shape: str = "hann", center: bool = True, padding: str = "zeros",
) -> npt.NDArray[np.complex128]:  # fmt: skip
    """[size // 2 + 1, frames]: spectra of frames `hop` apart (a quarter of the window), as librosa.stft has them.

    The window is `length` samples long (None: `size`), in the middle of the frame. With `center`, frame t is around
    sample t * hop, and the sound goes on beyond its ends by `padding`: zeros, reflect or edge.
    """
    parts = list(spectra(samples, size=size, hop=hop, length=length, shape=shape, center=center, padding=padding))
    return np.concatenate(parts, axis=1) if parts else np.zeros((size // 2 + 1, 0), np.complex128)


def power_spectrum(
    samples: npt.ArrayLike, *, size: int = 2048, hop: int | None = None, length: int | None = None,
    shape: str = "hann", center: bool = True, padding: str = "zeros", power: float = 2.0,
) -> Floats:  # fmt: skip
    """The magnitudes of `stft` to the power of `power`."""
    blocks = spectra(samples, size=size, hop=hop, length=length, shape=shape, center=center, padding=padding)
    parts = [np.abs(block) ** power for block in blocks]
    return np.concatenate(parts, axis=1) if parts else np.zeros((size // 2 + 1, 0))


def spectra(
    samples: npt.ArrayLike, *, size: int, hop: int | None, length: int | None, shape: str, center: bool, padding: str
) -> Iterator[npt.NDArray[np.complex128]]:
    """`power_spectrum`, some frames at a time."""
    sound = sound_of(samples)
    width = count(size if length is None else length, "the length of a window")
    step = count(width // 4 if hop is None else hop, "the hop")
    if width > count(size, "the size of a frame"):
        raise AudioError(f"a window of {width} samples does not fit into frames of {size}")
    if padding not in _PADDING:
        raise AudioError(f"no padding is called {padding!r}; there are {', '.join(_PADDING)}")
    if center:
        half = size // 2
        if (padding == "reflect" and len(sound) <= half) or (padding == "edge" and not len(sound)):
            raise AudioError(f"{len(sound)} samples are too few to be reflected by half a frame of {size}")
        sound = np.pad(sound, half, _PADDING[padding])  # type: ignore[call-overload]
    taper = np.zeros(size)
    left = (size - width) // 2
    taper[left : left + width] = window(shape, width)
    if len(sound) < size:
        return
    frames = sliding_window_view(sound, size)[::step]
    for at in range(0, len(frames), AT_ONCE):
        yield np.fft.rfft(frames[at : at + AT_ONCE] * taper, axis=1).T


def sound_of(samples: npt.ArrayLike) -> Floats:
    """One channel of finite numbers, as they are: nothing is scaled."""
    array: npt.NDArray[Any] = np.asarray(samples)
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        raise AudioError(f"sound is [samples] of floats or integers, not {array.dtype} of the shape {array.shape}")
    floats = array.astype(np.float64)
    if not np.isfinite(floats).all():
        raise AudioError("the sound holds numbers that are not finite (NaN or infinite)")
    return floats


def count(number: int, what: str) -> int:
    """A number that can be one of samples or bands."""
    if not 1 <= number <= _LARGEST:
        raise AudioError(f"{what} is {number}; it should be 1 to {_LARGEST}")
    return number


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
