"""Who said what: an embedding of each segment, and clusters of those that are alike.

with SpeakerEmbedding() as embed:
    vectors = [embed(part) for part in parts]
label_speakers(vectors)                     # [0, 1, 0, ...]

A segment has one speaker: where two speak within one, the louder or longer one is named.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openrknn.closing import Closing
from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import VoiceSetError
from openrknn.voice.features import mel_spectrogram
from openrknn.voice.input_audio import AnySound, audio_of
from openrknn.voice.results import Segment
from openrknn.voice.sets import VoiceSet, open_set
from openrknn.voice.steps import Steps

Vector = npt.NDArray[np.float32]
_RATE = 16_000
_WINDOW, _STEP, _BANDS = 160, 77, 40
"""Frames of 10 ms: windows of 1.6 s, 1.3 of them a second, as Resemblyzer has them."""
_COVERAGE = 0.75
"""Of the last window that has to be sound, if there is another."""
_LOUDNESS = -30.0
"""dB of full scale. What is quieter is made as loud."""
_ALIKE = 0.78
"""Cosine of two clusters that are one speaker."""
_MOST = 64
EMBEDDING = "resemblyzer"
"""The set that distinguishes speakers."""


class SpeakerEmbedding(Closing):
    """Vectors of length 1 whose cosine says how alike two voices are."""

    def __init__(self, model: str | Path | VoiceSet = EMBEDDING, device: str = "auto") -> None:
        self.set = open_set(model, "embedding")
        self.rate = self.set.rate
        frames = self.set.options.get("frames")
        if type(frames) is not int or not 1 <= frames <= _WINDOW or _WINDOW % frames:
            raise VoiceSetError(f"{self.set.folder}: its 'frames' should divide {_WINDOW}, not {frames!r:.40}")
        self._frames = frames
        self._net = Steps(self.set, "net", device, frames * _BANDS, _width(self.set))
        self._lock = threading.Lock()

    def __call__(self, sound: AnySound, rate: int | None = None) -> Vector:
        """Of a recording in which one person speaks; half a second is little, three are enough."""
        samples = audio_of(sound, rate, self.rate).samples
        mel = _mel(samples)
        found = np.stack([self._window(mel[at : at + _WINDOW]) for at in _starts(len(samples))])
        return _unit(found.mean(axis=0))

    def close(self) -> None:
        """Give the net back."""
        with self._lock:
            self._net.close()

    def _window(self, mel: Vector) -> Vector:
        with self._lock:
            self._net.reset()
            for at in range(0, _WINDOW, self._frames):
                found = self._net.step(mel[at : at + self._frames])
        return _unit(found)


def _width(voice: VoiceSet) -> int:
    value = voice.options.get("width", 256)
    if type(value) is not int or not 1 <= value <= 1 << 16:
        raise VoiceSetError(f"{voice.folder}: its 'width' should be a number, not {value!r:.40}")
    return value


def _starts(samples: int) -> list[int]:
    """First frames of the windows of so much sound."""
    frames = -(-(samples + 1) // (_RATE // 100))
    starts = list(range(0, max(1, frames - _WINDOW + _STEP + 1), _STEP))
    covered = (samples / 160 - starts[-1]) / _WINDOW
    return starts[:-1] if covered < _COVERAGE and len(starts) > 1 else starts


def _mel(samples: Samples) -> Vector:
    """[frames, bands], not as logarithms, with silence behind it for the last window."""
    if not len(samples):
        samples = np.zeros(1, np.float32)
    loud = 20 * np.log10(max(float(np.sqrt(np.mean(samples.astype(np.float64) ** 2))), 1e-9))
    louder = samples * 10 ** (max(0.0, _LOUDNESS - loud) / 20)
    end = (_starts(len(samples))[-1] + _WINDOW) * 160
    filled = np.concatenate([louder, np.zeros(max(0, end - len(louder)), np.float32)])
    return np.asarray(mel_spectrogram(filled, _RATE, size=400, hop=160, bands=_BANDS).T, np.float32)


def _unit(vector: npt.NDArray[np.floating]) -> Vector:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-9), np.float32)


def label_speakers(
    vectors: Sequence[Vector], speakers: int = 0, weights: Sequence[float] = (), alike: float = _ALIKE
) -> list[int]:
    """A number for each vector, counted by who speaks first: the two clusters that are most alike become one.

    It ends with `speakers` clusters, or with 0 where none are more `alike`. `weights`: seconds of each.
    """
    if not 0 <= speakers <= _MOST:
        raise VoiceSetError(f"{speakers} speakers; 1 to {_MOST}, or 0 to find out how many")
    sizes = list(weights) or [1.0] * len(vectors)
    groups = [[at] for at in range(len(vectors))]
    sums = [np.asarray(vector, np.float64) * size for vector, size in zip(vectors, sizes, strict=True)]
    while len(groups) > max(1, speakers):
        units = np.stack([_unit(total) for total in sums])
        cosines = units @ units.T
        np.fill_diagonal(cosines, -np.inf)
        one, other = sorted(map(int, np.unravel_index(int(cosines.argmax()), cosines.shape)))
        if not speakers and cosines[one, other] < alike:
            break
        groups[one] += groups.pop(other)
        sums[one] = sums[one] + sums.pop(other)
    named = [0] * len(vectors)
    for number, group in enumerate(sorted(groups, key=min)):
        for at in group:
            named[at] = number
    return named


def with_speakers(segments: Sequence[Segment], vectors: Sequence[Vector], speakers: int = 0) -> list[Segment]:
    """Segments with the names "Speaker 1", "Speaker 2" and so on."""
    labels = label_speakers(vectors, speakers, [max(0.1, part.end - part.start) for part in segments])
    return [replace(part, speaker=f"Speaker {label + 1}") for part, label in zip(segments, labels, strict=True)]


class SpeakerTracker(Closing):
    """Embeds the segments of a stream as they arrive. Keeps the last minute of sound, and a vector of each segment."""

    def __init__(self, embed: SpeakerEmbedding, rate: int, speakers: int = 0) -> None:
        if not 0 <= speakers <= _MOST:
            raise VoiceSetError(f"{speakers} speakers; 1 to {_MOST}, or 0 to find out how many")
        self._embed, self._rate, self._speakers = embed, rate, speakers
        self._kept: Samples = np.zeros(0, np.float32)
        self._first = 0
        self._vectors: list[Vector] = []
        self._seconds: list[float] = []

    def feed(self, block: Samples) -> None:
        """Sound that the stream is given, too."""
        self._kept = np.concatenate([self._kept, block])
        if len(self._kept) > 2 * _KEPT * self._rate:
            gone = len(self._kept) - _KEPT * self._rate
            self._kept, self._first = self._kept[gone:].copy(), self._first + gone

    def take(self, segment: Segment) -> None:
        """A final segment, which ended not long ago."""
        begin, end = (max(0, round(at * self._rate) - self._first) for at in (segment.start, segment.end))
        self._vectors.append(self._embed(self._kept[begin:end], self._rate))
        self._seconds.append(segment.end - segment.start)

    def named(self, segments: Sequence[Segment]) -> list[Segment]:
        """All segments that were taken, with their speakers."""
        return with_speakers(segments, self._vectors, self._speakers)

    def names(self, known: Sequence[tuple[str, Vector]] = ()) -> list[str]:
        """Of each segment that was taken: a known name, else "A", "B" and so on, counted by who speaks first."""
        weights = [max(0.1, seconds) for seconds in self._seconds]
        labels = label_speakers(self._vectors, self._speakers, weights)
        return _names(labels, self._vectors, weights, known)

    def close(self) -> None:
        """Give the net back."""
        self._embed.close()


def _names(labels: Sequence[int], vectors: Sequence[Vector], weights: Sequence[float],
           known: Sequence[tuple[str, Vector]]) -> list[str]:  # fmt: skip
    """A cluster has the known name whose voice is most alike; letters are for the others."""
    found: dict[int, str] = {}
    letters = 0
    for label in range(max(labels, default=-1) + 1):
        parts = [vector * np.float32(weight)
                 for one, vector, weight in zip(labels, vectors, weights, strict=True) if one == label]  # fmt: skip
        middle = _unit(np.sum(parts, axis=0))
        best = max(known, key=lambda row: float(row[1] @ middle), default=None)
        if best is not None and float(best[1] @ middle) >= _ALIKE:
            found[label] = best[0]
        else:
            found[label] = _letter(letters)
            letters += 1
    return [found[label] for label in labels]


def _letter(number: int) -> str:
    letter = chr(ord("A") + number % 26)
    return letter if number < 26 else f"{letter}{number // 26}"


_KEPT = 60
"""Seconds."""
