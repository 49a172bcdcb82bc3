"""Noise out, speech in: DTLN, two nets, one for the spectrum and one for the waveform.

Frames of 512 samples, 128 apart. The first net sees the magnitudes of a frame's spectrum and says how much of each
to keep; what that leaves is turned back into samples with the old phases, which the second net cleans again. Frames
are added where they overlap. (Westhausen and Meyer, 2020.)
"""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.voice.audio import Audio, Samples
from openrknn.voice.input_audio import AnySound, audio_of, samples_of
from openrknn.voice.sets import VoiceSet, open_set
from openrknn.voice.steps import Steps

FRAME = 512
HOP = 128
_BINS = FRAME // 2 + 1
_DELAY = FRAME - HOP
"""Samples: the last frame that adds to a sample begins with it."""


class Denoiser(Closing):
    """Takes noise out of speech.

    with Denoiser() as clean:
        write_wav("out.wav", clean("noisy.wav"))
        clean.feed(block)       # a stream: samples that are done, 24 to 32 ms later
        clean.finish()          # and the rest of them
    """

    rate = 16_000

    def __init__(self, model: str | Path | VoiceSet = "dtln", device: str = "auto") -> None:
        self.set = open_set(model, "denoiser")
        self._spectrum = Steps(self.set, "spectrum", device, _BINS, _BINS)
        try:
            self._wave = Steps(self.set, "wave", device, FRAME, FRAME)
        except BaseException:
            self._spectrum.close()
            raise
        self._lock = threading.Lock()
        self._begin()

    def __call__(self, audio: AnySound, rate: int | None = None) -> Audio:
        """A whole recording, at 16 kHz, as long as it was. A stream in progress is reset."""
        samples = audio_of(audio, rate, self.rate).samples
        with self._lock:
            self._reset()
            done = [self._feed(samples), self._finish()]
        return Audio(np.concatenate(done), self.rate)

    def feed(self, samples: npt.ArrayLike) -> Samples:
        """The next samples at 16 kHz, any number of them; those that are done now."""
        block = samples_of(samples)
        with self._lock:
            return self._feed(block)

    def finish(self) -> Samples:
        """The rest: all in all as many samples as went in. Everything is as new then."""
        with self._lock:
            return self._finish()

    def reset(self) -> None:
        """For the next recording."""
        with self._lock:
            self._reset()

    def close(self) -> None:
        """Give the nets back."""
        with self._lock:
            self._spectrum.close()
            self._wave.close()

    def _begin(self) -> None:
        self._heard: Samples = np.zeros(_DELAY, np.float32)
        self._sum: Samples = np.zeros(FRAME, np.float32)
        self._owed = 0
        # What comes out first belongs to the silence before the sound.
        self._early = _DELAY

    def _reset(self) -> None:
        self._spectrum.reset()
        self._wave.reset()
        self._begin()

    def _feed(self, block: Samples) -> Samples:
        self._owed += len(block)
        return self._advance(block)

    def _finish(self) -> Samples:
        owed = self._owed
        frames = -(-(self._early + owed) // HOP) if owed else 0
        rest = self._advance(np.zeros(max(0, _DELAY + frames * HOP - len(self._heard)), np.float32))[:owed]
        self._reset()
        return rest

    def _advance(self, block: Samples) -> Samples:
        heard = np.concatenate([self._heard, block])
        done = [np.zeros(0, np.float32)]
        while len(heard) >= FRAME:
            done.append(self._frame(heard[:FRAME]))
            heard = heard[HOP:]
            self._heard = heard
        self._heard = heard.copy()
        made = np.concatenate(done)
        early = min(self._early, len(made))
        self._early -= early
        self._owed -= len(made) - early
        return made[early:]

    def _frame(self, frame: Samples) -> Samples:
        spectrum = np.fft.rfft(frame)
        mask = self._spectrum.step(np.abs(spectrum).astype(np.float32))
        total = self._sum + self._wave.step(np.fft.irfft(spectrum * mask, FRAME).astype(np.float32))
        self._sum = np.concatenate([total[HOP:], np.zeros(HOP, np.float32)])
        return total[:HOP]
