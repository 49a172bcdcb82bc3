"""Sound to what the encoders take: 80 filter banks, `window` frames side by side every `shift`, normalised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openrknn.voice.audio.sound import Samples
from openrknn.voice.features import KaldiOptions, kaldi_fbank

Array = npt.NDArray[np.float32]
FBANK = KaldiOptions(bands=80, shape="hamming")
_FULL_SCALE = 32768
"""FunASR's models are trained with 16-bit samples."""


@dataclass(frozen=True)
class Frontend:
    """The numbers are in the model's metadata."""

    mean: Array
    """Of each band, negative: it is added."""
    scale: Array
    window: int = 7
    shift: int = 6

    @property
    def seconds(self) -> float:
        """From one vector to the next."""
        return self.shift * FBANK.hop

    def vectors(self, samples: int) -> int:
        """How many vectors so many samples become."""
        width, hop = FBANK.samples
        frames = max(0, samples - width) // hop + 1
        return -(-frames // self.shift)

    def __call__(self, samples: Samples) -> Array:
        """[vectors, bands * window]: each is centred on its shift, and the first and last frames are repeated
        where there are none. Sound that is too short for one frame is completed with silence."""
        width, _ = FBANK.samples
        if len(samples) < width:
            samples = np.concatenate([samples, np.zeros(width - len(samples), np.float32)])
        frames = kaldi_fbank(samples * np.float32(_FULL_SCALE), FBANK)
        before, count = (self.window - 1) // 2, -(-len(frames) // self.shift)
        behind = max(0, (count - 1) * self.shift + self.window - before - len(frames))
        frames = np.pad(frames, ((before, behind), (0, 0)), "edge")[: (count - 1) * self.shift + self.window]
        windows = np.lib.stride_tricks.sliding_window_view(frames, self.window, axis=0)[:: self.shift]
        stacked = windows.transpose(0, 2, 1).reshape(len(windows), -1)
        return np.asarray((stacked + self.mean) * self.scale, np.float32)


def positions(count: int, width: int) -> Array:
    """[count, width]: sines, then cosines, of the places from 1 on."""
    half = width // 2
    speeds = np.exp(np.arange(half) * (-np.log(10_000.0) / (half - 1)))
    angles = np.arange(1, count + 1)[:, None] * speeds
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
