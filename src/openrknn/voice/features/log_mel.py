"""Logarithms of mel bands and cepstral coefficients, as librosa, Whisper and Kaldi compute them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from openrknn.voice.errors import AudioError
from openrknn.voice.features.frames import AT_ONCE, Floats, count, kaldi_banks, mel_banks, sound_of, spectra, window

Features = npt.NDArray[np.float32]

_EPSILON = float(np.finfo(np.float32).eps)
"""Kaldi takes the logarithm of nothing smaller."""


def mel_spectrogram(
    samples: npt.ArrayLike, rate: int, *, size: int = 2048, hop: int | None = 512, length: int | None = None,
    bands: int = 128, low: float = 0.0, high: float | None = None, scale: str = "slaney", norm: bool = True,
    power: float = 2.0, padding: str = "zeros", center: bool = True,
) -> Floats:  # fmt: skip
    """[bands, frames], as librosa.feature.melspectrogram has it."""
    weights = mel_banks(rate, size, bands, low=low, high=high, scale=scale, norm=norm)
    blocks = spectra(samples, size=size, hop=hop, length=length, shape="hann", center=center, padding=padding)
    parts = [weights @ np.abs(block) ** power for block in blocks]
    return np.concatenate(parts, axis=1) if parts else np.zeros((bands, 0))


def decibels(power: Floats, *, top: float | None = 80.0, smallest: float = 1e-10) -> Floats:
    """10 log10, nothing more than `top` below the loudest; as librosa.power_to_db with ref=1."""
    made: Floats = 10 * np.log10(np.maximum(smallest, power))
    return np.maximum(made, made.max() - top) if top is not None and made.size else made


@lru_cache(maxsize=4)
def _whisper_banks(bands: int) -> Floats:
    return mel_banks(16_000, 400, bands)


def whisper_log_mel(samples: npt.ArrayLike, *, bands: int = 80) -> Features:
    """[bands, samples // 160] of sound at 16 kHz; 80 bands, or 128 from Whisper large-v3 on. Whisper's own windows
    are 30 s: fill up with zeros to 480000 samples for them."""
    sound = sound_of(samples)
    if len(sound) <= _WHISPER_HALF:
        raise AudioError(f"{len(sound)} samples are too few to be reflected by half a frame of 400")
    logs = whisper_logs(np.pad(sound, _WHISPER_HALF, "reflect"), bands=bands)[:, :-1]
    return whisper_levels(logs, float(logs.max()) if logs.size else 0.0)


def whisper_logs(samples: npt.ArrayLike, *, bands: int = 80) -> Floats:
    """Logarithms before they are made comparable: a frame of 400 samples every 160, the first one from the first on."""
    blocks = spectra(samples, size=400, hop=160, length=None, shape="hann", center=False, padding="zeros")
    parts = [_whisper_banks(bands) @ np.abs(block) ** 2 for block in blocks]
    return np.log10(np.maximum(np.concatenate(parts, axis=1), 1e-10)) if parts else np.zeros((bands, 0))


def whisper_levels(logs: Floats, loudest: float) -> Features:
    """What the model takes: nothing more than 80 dB below the loudest of the recording."""
    made: Floats = (np.maximum(logs, loudest - 8) + 4) / 4
    return made.astype(np.float32)


_WHISPER_HALF = 200
"""Half a frame: the first one is around the first sample."""


@dataclass(frozen=True, slots=True)
class KaldiOptions:
    """What Kaldi's feature programs can be told; the defaults are theirs, without dither."""

    rate: int = 16_000
    frame: float = 0.025
    """Seconds."""
    hop: float = 0.010
    bands: int = 23
    low: float = 20.0
    high: float = 0.0
    """Up to 0: counted from half the rate downwards."""
    emphasis: float = 0.97
    shape: str = "povey"
    remove_mean: bool = True
    """Of each frame."""
    snip: bool = True
    """Only frames that lie inside of the sound; else the sound is mirrored at its ends, one frame for each hop."""
    power: bool = True

    @property
    def samples(self) -> tuple[int, int]:
        """Of a frame and of a hop."""
        return count(int(self.rate * self.frame), "a frame"), count(int(self.rate * self.hop), "the hop")


def kaldi_fbank(samples: npt.ArrayLike, options: KaldiOptions | None = None) -> Features:
    """[frames, bands]. Kaldi's own numbers are of 16-bit samples: multiply floats of -1 to 1 by 32768 first, or not,
    as the model was trained."""
    return kaldi_bands(samples, options or KaldiOptions()).astype(np.float32)


def kaldi_bands(samples: npt.ArrayLike, options: KaldiOptions) -> Floats:
    """`kaldi_fbank` in double precision."""
    width, hop = options.samples
    frames = _kaldi_frames(sound_of(samples), width, hop, snip=options.snip)
    size = 1 << (width - 1).bit_length()
    if not 0 <= options.emphasis <= 1:
        raise AudioError(f"an emphasis of {options.emphasis} makes no sense; 0 (none) to 1")
    taper = window(options.shape, width, periodic=False)
    weights = kaldi_banks(options.rate, size, options.bands, low=options.low, high=options.high).T
    parts = [np.zeros((0, options.bands))]
    for at in range(0, len(frames), AT_ONCE):
        block = frames[at : at + AT_ONCE]
        if options.remove_mean:
            block = block - block.mean(axis=1, keepdims=True)
        before = np.concatenate([block[:, :1], block[:, :-1]], axis=1)
        spectrum = np.abs(np.fft.rfft((block - options.emphasis * before) * taper, size, axis=1))
        parts.append(np.log(np.maximum((spectrum**2 if options.power else spectrum) @ weights, _EPSILON)))
    return np.concatenate(parts)


def _kaldi_frames(sound: Floats, width: int, hop: int, *, snip: bool) -> Floats:
    if not snip:
        if len(sound) < width:
            raise AudioError(f"{len(sound)} samples are too few to be mirrored for frames of {width}")
        total = (len(sound) + hop // 2) // hop
        left = width // 2 - hop // 2
        mirrored = sound[::-1]
        begin = mirrored[len(mirrored) - left :] if left > 0 else sound[:0]
        sound = np.concatenate([begin, sound[max(0, -left) :], mirrored])
        return sliding_window_view(sound, width)[::hop][:total]
    if len(sound) < width:
        return np.zeros((0, width))
    return sliding_window_view(sound, width)[::hop]


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
