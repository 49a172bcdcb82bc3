"""How high a voice or an instrument sounds: CREPE, a frequency for each 10 ms."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.voice.errors import AudioError, VoiceSetError
from openrknn.voice.input_audio import AnySound, audio_of
from openrknn.voice.sets import VoiceSet, open_set
from openrknn.voice.steps import open_net

FRAME, BINS = 1024, 360
_NEAR = 4
"""Bins on each side of the largest that decide with it."""
_FIRST_CENTS = 1997.3794084376191
_BIN_CENTS = 20.0
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PitchTrack:
    """Three numbers for each frame."""

    times: Floats
    """Seconds."""
    frequencies: Floats
    """Hertz."""
    confidence: Floats
    """0 (no pitch) to 1."""


class Pitch(Closing):
    """Follows the pitch of a recording.

    with Pitch("crepe-tiny") as pitch:
        track = pitch("song.wav")
    """

    rate = 16_000

    def __init__(self, model: str | Path | VoiceSet = "crepe-tiny", device: str = "auto") -> None:
        self.set = open_set(model, "pitch")
        self._net = open_net(self.set, "net", device)
        ports = (*self._net.inputs, *self._net.outputs)
        if [math.prod(port.shape) for port in ports] != [FRAME, BINS]:
            self._net.close()
            raise VoiceSetError(
                f"{self.set.folder}: {self.set.name!r} is no CREPE: {FRAME} samples in, {BINS} bins out"
            )
        self._names, self._shape = [port.name for port in ports], tuple(ports[0].shape)
        self._lock = threading.Lock()

    def __call__(self, audio: AnySound, rate: int | None = None, *, hop: float = 0.01) -> PitchTrack:
        """Frames `hop` seconds apart; frame t is around t * hop."""
        salience = self.salience(audio, rate, hop=hop)
        step = self._hop(hop)
        times = (np.arange(len(salience)) * step / self.rate).astype(np.float32)
        return PitchTrack(times, frequencies_of(salience), salience.max(axis=1, initial=0))

    def salience(self, audio: AnySound, rate: int | None = None, *, hop: float = 0.01) -> Floats:
        """[frames, 360]: how much each pitch is there; 20 cents between two, the first at 31.7 Hz."""
        samples, step = audio_of(audio, rate, self.rate).samples, self._hop(hop)
        if not len(samples):
            return np.zeros((0, BINS), np.float32)
        padded = np.pad(samples, FRAME // 2)
        frames = np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::step]
        return np.stack([self._frame(frame) for frame in frames])

    def close(self) -> None:
        """Give the net back."""
        with self._lock:
            self._net.close()

    def _hop(self, seconds: float) -> int:
        if not 1 / self.rate <= seconds <= 60:
            raise AudioError(f"frames {seconds} seconds apart make no sense; 0.01 is usual")
        return round(seconds * self.rate)

    def _frame(self, frame: Floats) -> Floats:
        wide = frame.astype(np.float64)
        # As in training: no mean, and a deviation of 1 (of one degree of freedom less), however quiet it is.
        normal = (wide - wide.mean()) / max(1e-10, wide.std(ddof=1))
        with self._lock:
            found = self._net.run({self._names[0]: normal.astype(np.float32).reshape(self._shape)})
        return np.asarray(found[self._names[1]], np.float32).reshape(-1)


def frequencies_of(salience: Floats) -> Floats:
    """Hertz of each frame: the mean of the bins around the largest, by how much each is there."""
    if not len(salience):
        return np.zeros(0, np.float32)
    bins = np.arange(BINS)
    best = salience.argmax(axis=1)
    weights = np.where(np.abs(bins - best[:, None]) <= _NEAR, salience, 0).astype(np.float64)
    total = weights.sum(axis=1)
    cents = _FIRST_CENTS + _BIN_CENTS * np.where(total > 0, weights @ bins / np.where(total > 0, total, 1), best)
    return np.asarray(10 * 2 ** (cents / 1200), np.float32)
