"""Which notes are played or sung: Basic Pitch (Bittner and others, 2022), several at a time.

Windows of 2 s that overlap; the NPU computes a constant-Q transform of each, and from its normalised decibels how much
each of 88 keys sounds (`note`), begins (`onset`), and the pitch in thirds of semitones (`contour`).
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.voice.audio import Samples
from openrknn.voice.errors import AudioError, VoiceSetError
from openrknn.voice.input_audio import AnySound, audio_of
from openrknn.voice.sets import VoiceSet, open_set
from openrknn.voice.steps import open_net

_WINDOW, _FRAMES, _BINS, _KEYS, _CONTOUR = 43_844, 172, 309, 88, 264
_OVERLAP, _HOP = 30, 256
_STEP = _WINDOW - _OVERLAP * _HOP
_LOWEST = 21
"""The lowest key of a piano, as MIDI numbers it."""
_PATIENCE = 11
"""Frames that a note may be below the threshold without being over."""
_OUTPUTS = {"onset": _KEYS, "note": _KEYS, "contour": _CONTOUR}
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Note:
    """A note; times in seconds, `key` as MIDI numbers them (60 is the middle C)."""

    start: float
    end: float
    key: int
    loudness: float

    @property
    def frequency(self) -> float:
        """Hertz, with 440 for the A."""
        return float(440 * 2 ** ((self.key - 69) / 12))


class Notes(Closing):
    """Writes down the notes of a recording.

    with Notes() as notes:
        for note in notes("piano.wav"):
            print(note.key, note.start, note.end)
    """

    rate = 22_050

    def __init__(self, model: str | Path | VoiceSet = "basic-pitch", device: str = "auto") -> None:
        self.set = open_set(model, "notes")
        where = f"{self.set.folder}: the set {self.set.name!r}"
        names = self.set.options.get("outputs")
        if not isinstance(names, dict) or set(names) != set(_OUTPUTS):
            raise VoiceSetError(f"{where} should name its outputs {', '.join(_OUTPUTS)}")
        self._names: dict[str, str] = {key: str(value) for key, value in names.items()}
        self._lock = threading.Lock()
        self._transform = open_net(self.set, "transform", device)
        try:
            self._net = open_net(self.set, "notes", device)
        except BaseException:
            self._transform.close()
            raise
        sizes = {port.name: math.prod(port.shape) for port in self._net.outputs}
        ports = [
            math.prod(one.shape) for one in (self._transform.inputs[0], self._transform.outputs[0], self._net.inputs[0])
        ]
        fits = all(sizes.get(self._names[key]) == _FRAMES * bins for key, bins in _OUTPUTS.items())
        if ports != [_WINDOW, 2 * _BINS * _FRAMES, _BINS * _FRAMES] or not fits:
            self.close()
            raise VoiceSetError(f"{where} has no nets of Basic Pitch: {ports} and {sizes}")

    def __call__(
        self, audio: AnySound, rate: int | None = None, *, onset: float = 0.5, threshold: float = 0.3,
        shortest: float = 0.1277,
    ) -> list[Note]:  # fmt: skip
        """All notes by their beginnings. `onset`: how sure a beginning has to be, `threshold`: that it still sounds."""
        found = self.posteriors(audio, rate)
        return notes_of(found["note"], found["onset"], onset=onset, threshold=threshold, shortest=shortest)

    def posteriors(self, audio: AnySound, rate: int | None = None) -> dict[str, Floats]:
        """note [frames, 88], onset [frames, 88] and contour [frames, 264], 0 to 1; 86 frames a second."""
        samples = audio_of(audio, rate, self.rate).samples
        padded = np.concatenate([np.zeros(_OVERLAP * _HOP // 2, np.float32), samples])
        parts: dict[str, list[Floats]] = {key: [] for key in _OUTPUTS}
        for at in range(0, len(padded) if len(samples) else 0, _STEP):
            window = padded[at : at + _WINDOW]
            made = self._run(np.pad(window, (0, _WINDOW - len(window))))
            for key, value in made.items():
                parts[key].append(value[_OVERLAP // 2 : _FRAMES - _OVERLAP // 2])
        frames = len(samples) * (self.rate // _HOP) // self.rate
        return {
            key: np.concatenate([np.zeros((0, _OUTPUTS[key]), np.float32), *values])[:frames]
            for key, values in parts.items()
        }

    def close(self) -> None:
        """Give the nets back."""
        with self._lock:
            self._transform.close()
            self._net.close()

    def _run(self, window: Samples) -> dict[str, Floats]:
        # Decibels are normalised below: how loud the sound is does not matter, and fp16 likes it loud.
        peak = float(np.abs(window).max())
        gain = 1 / peak if peak > 0 else 1.0
        with self._lock:
            made = self._transform.run({self._transform.inputs[0].name: (window * np.float32(gain)).reshape(1, -1, 1)})
            turned = made[self._transform.outputs[0].name].astype(np.float64).reshape(_BINS, _FRAMES, 2) / gain
            levels = 10 * np.log10((turned**2).sum(axis=2).T + 1e-10)
            levels -= levels.min()
            levels /= levels.max() or 1.0
            given = levels.astype(np.float32).reshape(1, _FRAMES, _BINS, 1)
            found = self._net.run({self._net.inputs[0].name: given})
        return {key: found[name].reshape(_FRAMES, _OUTPUTS[key]) for key, name in self._names.items()}


def notes_of(
    sounding: Floats, beginning: Floats, *, onset: float = 0.5, threshold: float = 0.3, shortest: float = 0.1277
) -> list[Note]:
    """Notes of the two posteriors: from each peak of `beginning`, the last ones first, as long as the key sounds.

    A key that becomes louder all at once begins too. What sounds belongs to one note only, with its neighbours.
    """
    if sounding.ndim != 2 or sounding.shape != beginning.shape:
        raise AudioError(f"posteriors of {sounding.shape} and {beginning.shape} do not belong together")
    seconds = _HOP / Notes.rate
    starts, frames = _beginnings(sounding, beginning), len(sounding)
    left, found = sounding.astype(np.float64), []
    peaks = np.zeros(starts.shape, bool)
    peaks[1:-1] = (starts[1:-1] > starts[:-2]) & (starts[1:-1] > starts[2:]) & (starts[1:-1] >= onset)
    for start, key in np.argwhere(peaks)[::-1]:
        end, quiet = start + 1, 0
        while end < frames - 1 and quiet < _PATIENCE:
            quiet = quiet + 1 if left[end, key] < threshold else 0
            end += 1
        end -= quiet
        if (end - start) * seconds <= shortest:
            continue
        left[start:end, max(0, key - 1) : key + 2] = 0
        loudness = float(sounding[start:end, key].mean())
        found.append(Note(float(start * seconds), float(end * seconds), int(key) + _LOWEST, loudness))
    return sorted(found, key=lambda note: (note.start, note.key))


def _beginnings(sounding: Floats, beginning: Floats) -> npt.NDArray[np.float64]:
    """The larger of what the net says, and of how fast a key became louder over one and over two frames."""
    wide = sounding.astype(np.float64)
    rises = np.zeros_like(wide)
    if len(wide) > 2:
        rises[2:] = np.maximum(0, np.minimum(wide[2:] - wide[1:-1], wide[2:] - wide[:-2]))
    top = rises.max(initial=0)
    return np.maximum(beginning, rises * (beginning.max(initial=0) / top) if top > 0 else 0)
