"""Windows, frames and their spectra."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from openrknn.voice.errors import AudioError

__all__ = ["AT_ONCE", "Floats", "power_spectrum", "sound_of", "spectra", "stft", "window"]

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
