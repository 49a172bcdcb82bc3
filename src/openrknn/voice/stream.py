"""Text while it is spoken: partial segments that grow, and final ones when a pause comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import AudioError
from openrknn.voice.results import Segment
from openrknn.voice.segments import Activity, Rules, Segmenter, Spoken
from openrknn.voice.spans import FRAME

_SHORTEST = 0.2
"""Seconds of voice before the first partial result: less than that is a guess."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a model makes of a piece of sound."""

    text: str
    tokens: tuple[int, ...] = ()
    confidence: float = 0.0


class Listener(Protocol):
    """A speech model: what a family has to offer."""

    rate: int
    longest: float
    """Seconds that it takes at once."""

    def hear(self, samples: Samples, beam: int = 1) -> Heard:
        """Sound of at most `longest` seconds to text."""

    def close(self) -> None:
        """Give everything back."""


class TranscriptStream:
    """Takes sound as it comes. Holds the segment that is being spoken, and nothing of what was before.

    `partial`: seconds of sound between partial results, 0 for none. Where computing one takes longer than that, they
    come as often as they can. `activity` None: no segments are looked for, the sound is cut by the clock.
    """

    def __init__(
        self,
        hear: Callable[[Samples], Heard],
        activity: Activity | None,
        rules: Rules,
        *,
        partial: float = 0.25,
        rate: int = 16_000,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._hear, self._activity, self._partial, self._rate = hear, activity, partial, rate
        self._segmenter = Segmenter(rules)
        self._longest = int(rules.longest * rate)
        self._room: Samples = np.zeros(rate, np.float32)
        """Holds the samples from `_first` to `_frames`; grows with the segment that is spoken, and shrinks again."""
        self._first = self._frames = self._index = 0
        self._next = 0
        self._on_close = on_close
        self._is_over = False
        self.on_chance: Callable[[float, float], None] | None = None
        """Told the time and the probability of speech of every frame."""
        self.hearing_seconds = 0.0
        """Time that the model took, in all."""

    @property
    def seconds(self) -> float:
        """Sound that came, in all."""
        return self._frames / self._rate

    def feed(self, samples: npt.NDArray[Any]) -> list[Segment]:
        """More sound (floats at the model's rate): what is new because of it."""
        if self._is_over:
            raise AudioError("this stream is finished; begin another one with `stream()`")
        block = np.asarray(samples, np.float32).reshape(-1)
        if not np.isfinite(block).all():
            raise AudioError(f"after {self.seconds:.2f} s come numbers that are not finite (NaN or infinite)")
        found: list[Segment] = []
        # In pieces, so that one large array is treated as the same sound in small ones.
        for at in range(0, len(block), FRAME):
            found += self._piece(block[at : at + FRAME])
        return found

    def finish(self) -> list[Segment]:
        """The sound is over: the rest of the text. Finishing twice gives nothing more."""
        if self._is_over:
            return []
        self._is_over = True
        try:
            if self._activity is None:
                return [self._final(self._first, self._frames)] if self._frames > self._first else []
            # The last frame is completed with silence.
            found: list[Segment] = []
            if rest := self._frames % FRAME:
                for probability in self._activity.feed(np.zeros(FRAME - rest, np.float32)):
                    found += [self._spoken(part) for part in self._segmenter.feed(probability)]
            return found + [self._spoken(part) for part in self._segmenter.finish(self._frames)]
        finally:
            self._room, self._first = np.zeros(0, np.float32), self._frames
            if self._on_close is not None:
                self._on_close()

    def close(self) -> None:
        """Nobody wants to know the rest. Closing twice, or after the end, is allowed."""
        if not self._is_over:
            self._is_over = True
            self._room, self._first = np.zeros(0, np.float32), self._frames
            if self._on_close is not None:
                self._on_close()

    # -- inside --------------------------------------------------------------------------------------------------

    def _piece(self, block: Samples) -> list[Segment]:
        self._append(block)
        found: list[Segment] = []
        if self._activity is None:
            while self._frames - self._first >= self._longest:
                found.append(self._final(self._first, self._first + self._longest))
                self._forget(self._first + self._longest)
            begun = self._first
        else:
            for probability in self._activity.feed(block):
                if self.on_chance is not None:
                    self.on_chance(self._segmenter.frame * FRAME / self._rate, probability)
                found += [self._spoken(part) for part in self._segmenter.feed(probability)]
            self._forget(self._segmenter.wanted)
            now = self._segmenter.spoken
            if now is None:
                self._next = 0
                return found
            begun = now.start
            if self._next == 0:
                self._next = now.voiced + int(min(self._partial, _SHORTEST) * self._rate)
        if self._partial > 0 and self._frames >= max(self._next, begun + int(_SHORTEST * self._rate)):
            started = time.perf_counter()
            found.append(self._segment(begun, self._frames, is_final=False))
            spent = time.perf_counter() - started
            self._next = self._frames + int(max(self._partial, 1.5 * spent) * self._rate)
        return found

    @property
    def _kept(self) -> Samples:
        return self._room[: self._frames - self._first]

    def _append(self, block: Samples) -> None:
        used = self._frames - self._first
        if used + len(block) > len(self._room):
            wider = np.zeros(2 * (used + len(block)), np.float32)
            wider[:used] = self._kept
            self._room = wider
        self._room[used : used + len(block)] = block
        self._frames += len(block)

    def _forget(self, before: int) -> None:
        if before > self._first:
            rest = self._kept[before - self._first :].copy()
            self._first = before
            if len(self._room) > 4 * max(len(rest), self._rate):
                self._room = np.zeros(max(2 * len(rest), self._rate), np.float32)
            self._room[: len(rest)] = rest

    def _spoken(self, part: Spoken) -> Segment:
        self._next = 0
        if part.is_speech:
            return self._final(part.start, part.end)
        # A click: a partial result may have been given, which this one takes back.
        self._index += 1
        return Segment(self._index - 1, part.start / self._rate, part.end / self._rate, "")

    def _final(self, start: int, end: int) -> Segment:
        made = self._segment(start, end, is_final=True)
        self._index += 1
        return made

    def _segment(self, start: int, end: int, *, is_final: bool) -> Segment:
        started = time.perf_counter()
        heard = self._hear(self._kept[start - self._first : end - self._first])
        self.hearing_seconds += time.perf_counter() - started
        return Segment(
            self._index, start / self._rate, end / self._rate, heard.text, is_final, heard.confidence, heard.tokens
        )
