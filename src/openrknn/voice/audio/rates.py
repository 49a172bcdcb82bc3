"""Other rates: a windowed sinc in as many phases as the two rates need, for whole recordings and for streams.

Output n is at input time n * from / to. Its value is the sum of the inputs around it times a Kaiser-windowed sinc
whose edge is below the lower of the two Nyquist frequencies: passed up to 87 % of it, 100 dB down from it on.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import AudioError

_CROSSINGS = 48
"""Zero crossings of the sinc on each side."""
_ATTENUATION = 100.0
"""dB. The window and the edge follow from it by Kaiser's formulas."""
_BETA = 0.1102 * (_ATTENUATION - 8.7)
_TRANSITION = (_ATTENUATION - 8) / (2.285 * 2 * _CROSSINGS) / math.pi
_EDGE = 1 - _TRANSITION / 2
_LARGEST_TABLE = 1 << 18
"""Numbers. Rates without common divisors would need more; their rows are computed where they are used."""
_AT_ONCE = 1 << 19
"""Numbers that are gathered at a time, so that a long recording needs little memory."""


def resample(samples: npt.NDArray[Any], rate: int, to: int) -> Samples:
    """A whole recording at another rate: ceil(frames * to / rate) samples, none of them delayed."""
    machine = Resampler(rate, to)
    return np.concatenate([machine.feed(samples), machine.finish()])


class Resampler:
    """`resample` for a stream: the results of `feed` and then `finish`, joined, equal those of `resample`."""

    def __init__(self, rate: int, to: int) -> None:
        for one in (rate, to):
            if not 1000 <= one <= 1_000_000:
                raise AudioError(f"a rate of {one} samples a second makes no sense; 8000 to 48000 is usual")
        common = math.gcd(rate, to)
        self.rate, self.to = rate, to
        self._up, self._down = to // common, rate // common
        self._half = math.ceil(_CROSSINGS * max(1.0, rate / to)) if rate != to else 0
        self.reset()

    def reset(self) -> None:
        """As new, for the next recording."""
        # What is kept begins `half - 1` zeros before the sound.
        self._kept: Samples = np.zeros(max(0, self._half - 1), np.float32)
        self._first = -len(self._kept)
        self._next = 0
        self._frames = 0

    def feed(self, samples: npt.NDArray[Any]) -> Samples:
        """The outputs whose inputs are all there by now."""
        block = np.asarray(samples, np.float32).reshape(-1)
        self._frames += len(block)
        if self._half == 0:
            return block.copy()
        self._kept = np.concatenate([self._kept, block])
        # Output n needs the inputs up to floor(n * down / up) + half.
        last = self._frames - 1 - self._half
        return self._outputs((last * self._up + self._up - 1) // self._down if last >= 0 else -1)

    def finish(self) -> Samples:
        """The rest, as if silence followed."""
        if self._half == 0:
            return np.zeros(0, np.float32)
        self._kept = np.concatenate([self._kept, np.zeros(self._half, np.float32)])
        rest = self._outputs(-(-self._frames * self._up // self._down) - 1)
        self.reset()
        return rest

    def _outputs(self, last: int) -> Samples:
        """Outputs from the next to the `last`; what no later one needs is dropped."""
        count = max(0, last + 1 - self._next)
        found = np.empty(count, np.float32)
        taps = 2 * self._half
        size = max(1, _AT_ONCE // taps)
        windows = np.lib.stride_tricks.sliding_window_view(self._kept, taps) if count else None
        for start in range(0, count, size):
            assert windows is not None  # there is one to compute
            number = np.arange(self._next + start, self._next + min(start + size, count), dtype=np.int64)
            whole, phase = np.divmod(number * self._down, self._up)
            rows = self._rows(phase)
            begin = whole - self._half + 1 - self._first
            found[start : start + size] = np.einsum("ij,ij->i", windows[begin], rows)
        self._next += count
        keep = self._next * self._down // self._up - self._half + 1
        if keep > self._first:
            self._kept = self._kept[keep - self._first :].copy()
            self._first = keep
        return found

    def _rows(self, phase: npt.NDArray[np.int64]) -> Samples:
        if self._up * 2 * self._half <= _LARGEST_TABLE:
            return _table(self._up, self._down, self._half)[phase]
        return _sinc(phase / self._up, min(1.0, self._up / self._down), self._half)


@lru_cache(maxsize=8)
def _table(up: int, down: int, half: int) -> Samples:
    return _sinc(np.arange(up) / up, min(1.0, up / down), half)


def _sinc(fraction: npt.NDArray[np.float64], lower: float, half: int) -> Samples:
    """Rows of weights for outputs that lie this fraction of a sample behind their input."""
    distance = np.arange(-half + 1, half + 1)[None, :] - fraction[:, None]
    inside = np.clip(1 - (distance / half) ** 2, 0, None)
    rows = np.sinc(distance * lower * _EDGE) * np.i0(_BETA * np.sqrt(inside))
    # A constant stays what it is, in every phase.
    return np.asarray(rows / rows.sum(axis=1, keepdims=True), np.float32)
