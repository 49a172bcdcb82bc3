"""`Audio`: numbers and their rate, which never travel apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.errors import AudioError

Samples = npt.NDArray[np.float32]
"""One channel of sound, -1 to 1."""


@dataclass(frozen=True, eq=False)
class Audio:
    """A recording of one channel: floats of -1 to 1, and how many of them make a second."""

    samples: Samples
    rate: int

    @classmethod
    def of(cls, samples: npt.NDArray[Any], rate: int) -> Audio:
        """From an array of integers or floats, [frames] or [frames, channels]; channels are averaged."""
        array = np.asarray(samples)
        if array.ndim not in (1, 2):
            raise AudioError(f"sound is [frames] or [frames, channels], not {array.ndim}-dimensional")
        if not 1 <= rate <= 1_000_000:
            raise AudioError(f"a rate of {rate} samples a second makes no sense; 8000 to 48000 is usual")
        if array.dtype.kind in "iu":
            bits = 8 * array.dtype.itemsize - 1
            middle = 2**bits if array.dtype.kind == "u" else 0
            floats = ((array.astype(np.float64) - middle) / 2**bits).astype(np.float32)
        elif array.dtype.kind == "f":
            floats = array.astype(np.float32)
        else:
            raise AudioError(f"sound of type {array.dtype} is not understood; take int16 or float32")
        if floats.ndim == 2:
            floats = floats.mean(axis=1, dtype=np.float32)
        if not np.isfinite(floats).all():
            raise AudioError("the sound holds numbers that are not finite (NaN or infinite)")
        return cls(np.ascontiguousarray(floats), int(rate))

    @property
    def seconds(self) -> float:
        """How long it is."""
        return len(self.samples) / self.rate
