"""When somebody speaks: probabilities of frames become the beginnings and ends of segments.

A segment begins with a frame that is likelier than `threshold`, a little before it (`pad`), and ends when for
`silence` seconds no frame was likelier than `threshold - 0.15`. One that grows longer than `longest` is cut at its
quietest moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from openrknn.voice.audio.sound import Samples
from openrknn.voice.spans import FRAME, RATE


class Activity(Protocol):
    """A probability of speech for each frame of 512 samples: `VoiceActivity`, or `LoudnessActivity` without a net."""

    def feed(self, samples: Samples) -> list[float]:
        """Of every frame that is whole by now."""

    def reset(self) -> None:
        """As new, for another recording."""


class LoudnessActivity:
    """Loud is speech: the energy of a frame over the quietest of late. Used only if asked for (`--vad loudness`).

    Music and noise are heard as speech, so it is for clean recordings.
    """

    def __init__(self, floor: float = 3e-4, ratio: float = 3.0) -> None:
        self._least, self._ratio = floor, ratio
        self.reset()

    def reset(self) -> None:
        """As new, for another recording."""
        self._held: Samples = np.zeros(0, np.float32)
        self._floor = self._least

    def feed(self, samples: Samples) -> list[float]:
        """1 for a frame that is loud, 0 for one that is not."""
        self._held = np.concatenate([self._held, np.asarray(samples, np.float32)])
        whole = len(self._held) // FRAME
        frames = self._held[: whole * FRAME].reshape(whole, FRAME)
        self._held = self._held[whole * FRAME :].copy()
        found = []
        for loud in np.sqrt((frames.astype(np.float64) ** 2).mean(axis=1)):
            # The floor falls at once and rises by a hundredth a frame: a hum becomes the silence within seconds.
            self._floor = max(self._least, min(loud, self._floor * 1.01))
            found.append(1.0 if loud > self._ratio * self._floor else 0.0)
        return found


@dataclass(frozen=True, slots=True)
class Rules:
    """Seconds, but for the threshold."""

    threshold: float = 0.5
    silence: float = 0.6
    pad: float = 0.2
    least: float = 0.25
    """Speech that is shorter than this is a click."""
    longest: float = 15.0


@dataclass(frozen=True, slots=True)
class Spoken:
    """A segment, as samples from the beginning of the stream; `is_over` says that it will not grow."""

    start: int
    end: int
    is_over: bool
    is_speech: bool = True
    """False for a click that was taken for a beginning."""
    voiced: int = 0
    """Where the first loud frame began."""


class Segmenter:
    """Takes probabilities in the order of the frames and tells what they say about segments."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.frame = 0
        """How many came."""
        self._pad = round(rules.pad * RATE)
        self._free = 0
        """Where the last segment ended: the next begins not before."""
        self._start: int | None = None
        self._voiced = self._last = self._count = 0
        self._curve: list[float] = []

    @property
    def wanted(self) -> int:
        """The first sample that a segment may still need."""
        return self._start if self._start is not None else max(self._free, self.frame * FRAME - self._pad)

    @property
    def spoken(self) -> Spoken | None:
        """The segment that is being spoken, as far as it is known."""
        if self._start is None:
            return None
        return Spoken(self._start, self.frame * FRAME, is_over=False, voiced=self._voiced)

    @property
    def pause(self) -> int | None:
        """Where the segment that is spoken will end if the silence goes on; None while somebody speaks."""
        if self._start is None or self.frame * FRAME < self._last + max(self._pad, 2 * FRAME):
            return None
        return self._last + self._pad

    def feed(self, probability: float) -> Iterator[Spoken]:
        """One more frame; gives the segment that ends with it, if one does."""
        at = self.frame * FRAME
        self.frame += 1
        if self._start is None:
            if probability < self.rules.threshold:
                return
            self._start, self._voiced, self._count, self._curve = max(self._free, at - self._pad), at, 0, []
            self._last = at + FRAME
        self._curve.append(probability)
        if probability >= self.rules.threshold:
            self._count += 1
        if probability >= self.rules.threshold - 0.15:
            self._last = at + FRAME
        if at + FRAME - self._last >= self.rules.silence * RATE:
            yield self._over(min(self._last + self._pad, at + FRAME))
        elif at + 2 * FRAME - self._start > self.rules.longest * RATE:
            yield self._cut(at + FRAME)

    def finish(self, end: int) -> Iterator[Spoken]:
        """The sound is over, at this sample."""
        if self._start is not None:
            yield self._over(min(self._last + self._pad, end))

    def _over(self, end: int) -> Spoken:
        assert self._start is not None  # callers look
        is_speech = self._count * FRAME >= self.rules.least * RATE
        made = Spoken(self._start, end, is_over=True, is_speech=is_speech, voiced=self._voiced)
        self._start, self._free = None, end
        return made

    def _cut(self, end: int) -> Spoken:
        """Too long: end it at the least likely frame of its last third, and begin the next one there."""
        assert self._start is not None  # callers look
        tail = self._curve[-max(1, len(self._curve) // 3) :]
        back = len(tail) - 1 - int(np.argmin(tail)) if min(tail) < self.rules.threshold else 0
        middle = end - back * FRAME
        made = Spoken(self._start, middle, is_over=True, voiced=self._voiced)
        rest = self._curve[len(self._curve) - back :] if back else []
        self._free = middle
        self._count = sum(value >= self.rules.threshold for value in rest)
        self._start, self._voiced, self._curve = (middle, middle, rest) if rest else (None, 0, [])
        if self._last < middle:
            self._start = None
        return made
