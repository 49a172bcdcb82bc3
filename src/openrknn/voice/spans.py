"""From a probability of speech every 32 ms to spans of speech, by the rules of silero-vad.

Speech begins with a frame of `threshold` and ends where it stayed below `release` for `min_silence`, at the beginning
of that silence. Shorter speech than `min_speech` is none. Speech that becomes longer than `max_speech` is cut in its
longest pause of more than 98 ms, or where it is if there was none. At last each span grows by `pad` on both sides, or
until it meets its neighbour. Checked against `get_speech_timestamps` of the package silero-vad 6.2.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from openrknn.voice.errors import AudioError

FRAME = 512
"""Samples of a frame at 16 kHz."""
RATE = 16_000
_PAUSE = 0.098
"""Seconds. A pause from here on is a place where speech that is too long may be cut."""


@dataclass(frozen=True, slots=True)
class SpeechRules:
    """What counts as speech; times in seconds."""

    threshold: float = 0.5
    release: float | None = None
    """Below this a frame is silence; None: 0.15 less than `threshold`, and at least 0.01."""
    min_speech: float = 0.25
    max_speech: float = math.inf
    min_silence: float = 0.1
    pad: float = 0.03

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1 or not 0 <= self.low <= self.threshold:
            raise AudioError(f"threshold {self.threshold} and release {self.low} should be 0 to 1, in this order")
        for name in ("min_speech", "max_speech", "min_silence", "pad"):
            if not getattr(self, name) >= 0:
                raise AudioError(f"{name} is {getattr(self, name)}; it is a time in seconds and not negative")

    @property
    def low(self) -> float:
        """The lower threshold."""
        return max(self.threshold - 0.15, 0.01) if self.release is None else self.release


class SpanFinder:
    """Finds spans frame by frame: `feed` gives one when it ends. In samples, without padding."""

    def __init__(self, rules: SpeechRules | None = None) -> None:
        self.rules = rules or SpeechRules()
        self._longest = RATE * self.rules.max_speech - FRAME - 2 * RATE * self.rules.pad
        self.reset()

    def reset(self) -> None:
        """As new."""
        self._at = 0
        self._start: int | None = None
        self._quiet: int | None = None
        self._pauses: list[tuple[int, int]] = []

    @property
    def start(self) -> int | None:
        """Where the speech began that is going on, or None."""
        return self._start

    @property
    def quiet(self) -> int | None:
        """Where a silence began inside of the speech that is going on; it may be its end."""
        return self._quiet

    def feed(self, probability: float) -> list[tuple[int, int]]:
        """The next frame; the spans that it ends: none or one, or two where silence needs no time at all."""
        at, rules = self._at, self.rules
        self._at += FRAME
        if probability >= rules.threshold:
            if self._quiet is not None:
                if at - self._quiet > RATE * _PAUSE:
                    self._pauses.append((self._quiet, at))
                self._quiet = None
            if self._start is None:
                self._start = at
                return []
        if self._start is None:
            return []
        ended = []
        start: int | None = self._start
        if at - self._start > self._longest:
            ended.append(self._cut(self._start, at))
            start = self.start
        if start is not None and probability < rules.low:
            if self._quiet is None:
                self._quiet = at
            if at - self._quiet >= RATE * rules.min_silence:
                if self._quiet - start > RATE * rules.min_speech:
                    ended.append((start, self._quiet))
                self._forget(None)
        return ended

    def finish(self, total: int) -> list[tuple[int, int]]:
        """The span, if any, that the end of the recording, after `total` samples, ends."""
        start = self._start
        self.reset()
        return [(start, total)] if start is not None and total - start > RATE * self.rules.min_speech else []

    def _cut(self, start: int, at: int) -> tuple[int, int]:
        if not self._pauses:
            self._forget(None)
            return start, at
        end, again = max(self._pauses, key=lambda pause: pause[1] - pause[0])
        self._forget(again)
        return start, end

    def _forget(self, start: int | None) -> None:
        self._start, self._quiet, self._pauses = start, None, []


def find_spans(probabilities: Iterable[float], total: int, rules: SpeechRules | None = None) -> list[tuple[int, int]]:
    """All spans of a recording of `total` samples, with padding; in samples."""
    finder = SpanFinder(rules)
    found = [span for one in probabilities for span in finder.feed(one)]
    return pad_spans(found + finder.finish(total), total, finder.rules)


def pad_spans(spans: Sequence[tuple[int, int]], total: int, rules: SpeechRules) -> list[tuple[int, int]]:
    """Spans that grew by the padding; two that would meet share the silence between them."""
    pad = RATE * rules.pad
    made = [list(span) for span in spans]
    if made:
        made[0][0] = int(max(0, made[0][0] - pad))
        made[-1][1] = int(min(total, made[-1][1] + pad))
    for one, other in pairwise(made):
        silence = other[0] - one[1]
        if silence < 2 * pad:
            one[1] += silence // 2
            other[0] -= silence // 2
        else:
            one[1], other[0] = int(one[1] + pad), int(other[0] - pad)
    return [(start, end) for start, end in made]
