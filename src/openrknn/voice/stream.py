"""Text while it is spoken: partial segments that grow, and final ones when a pause comes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import AudioError
from openrknn.voice.listener import AUTO, Heard, Listener, Piece, StreamParts
from openrknn.voice.partials import PartialBudget
from openrknn.voice.results import Segment, Word, compression_ratio
from openrknn.voice.segments import Segmenter, Spoken
from openrknn.voice.spans import FRAME

__all__ = ["Heard", "Listener", "TranscriptStream", "segment_of"]

_SHORTEST = 0.2
"""Seconds of voice before the first partial result: less than that is a guess."""
_FEW = 12
_REPETITIVE = 2.4
"""Of a text by what zlib makes of it; Whisper's authors use the same number."""
_SURE = 0.85
"""Confidence of a text that really repeats itself."""


class TranscriptStream:
    """Takes audio blocks. Holds the segment that is being spoken, and nothing of what was before.

    `partial`: at least so many seconds of sound between partial results, 0 for none. Where computing one takes longer,
    or they would cost more than their share (`openrknn.voice.partials`), they come less often. `activity`
    None: no segments are looked for, the sound is cut by the clock.
    """

    def __init__(self, parts: StreamParts, *, rate: int = 16_000) -> None:
        rules = parts.rules
        self._hear, self._activity, self._partial, self._rate = parts.hear, parts.activity, parts.partial, rate
        self._parts, self._options = parts, parts.options
        self._budget = PartialBudget(parts.partial_share, rate)
        self._ready: tuple[int, int, Heard] | None = None
        """What was heard from here to there in a pause, which may be the end."""
        self._segments_told = self._unsure = 0
        self._unsure_seconds = 0.0
        self.language = "" if parts.options.language == AUTO else parts.options.language
        self._segmenter = Segmenter(rules)
        self._longest = int(rules.longest * rate)
        self._room: Samples = np.zeros(rate, np.float32)
        """Holds the samples from `_first` to `_frames`; grows with the segment that is spoken, and shrinks again."""
        self._first = self._frames = self._index = 0
        self._next = 0
        self._on_close = parts.on_close
        self._is_over = False
        self.on_chance: Callable[[float, float], None] | None = None
        """Told the time and the probability of speech of every frame."""
        self.hearing_seconds = 0.0
        """Time that the model took, in all."""

    @property
    def seconds(self) -> float:
        """Sound that came, in all."""
        return self._frames / self._rate

    @property
    def warnings(self) -> tuple[str, ...]:
        """What somebody should know who reads the text."""
        if not self._unsure:
            return self._parts.warnings
        known = ", ".join(self._parts.languages) if len(self._parts.languages) <= _FEW else "many"
        return (
            *self._parts.warnings,
            f"{self._unsure} of {self._segments_told} segments ({self._unsure_seconds:.1f} s) were not understood and "
            f"are left out: noise, or a language that the model does not know (it knows {known or 'one'}); "
            "--no-filters keeps them",
        )

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
                return self._final(self._first, self._frames) if self._frames > self._first else []
            # The last frame is completed with silence.
            found: list[Segment] = []
            if rest := self._frames % FRAME:
                for probability in self._activity.feed(np.zeros(FRAME - rest, np.float32)):
                    found += self._told(self._segmenter.feed(probability))
            found += self._told(self._segmenter.finish(self._frames))
            return found + self._rest()
        finally:
            self._room, self._first = np.zeros(0, np.float32), self._frames
            if self._on_close is not None:
                self._on_close()

    def close(self) -> None:
        """Discard the rest. Closing twice, or after the end, is allowed."""
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
                found += self._final(self._first, self._first + self._longest)
                self._forget(self._first + self._longest)
            begun, pause = self._first, None
        else:
            for probability in self._activity.feed(block):
                if self.on_chance is not None:
                    self.on_chance(self._segmenter.frame * FRAME / self._rate, probability)
                found += self._told(self._segmenter.feed(probability))
            self._forget(self._segmenter.wanted)
            now = self._segmenter.spoken
            if now is None:
                self._next = 0
                return found
            begun, pause = now.start, self._segmenter.pause
            if self._next == 0:
                self._next = now.voiced + int(min(self._partial, _SHORTEST) * self._rate)
        if self._partial > 0:
            found += self._partial_result(begun, pause)
        return found

    def _partial_result(self, begun: int, pause: int | None) -> list[Segment]:
        """Of what was said from `begun` on, if it is time for one; in a pause, of all that was said before it, once."""
        end = self._frames if pause is None else min(pause, self._frames)
        if pause is not None and self._ready is not None and self._ready[:2] == (begun, end):
            return []
        is_time = pause is not None or self._frames >= max(self._next, begun + int(_SHORTEST * self._rate))
        if not is_time or not self._budget.allows(end - begun, is_pause=pause is not None):
            return []
        started = time.perf_counter()
        # In a pause it is heard as carefully as a final one: it probably is.
        heard = self._listen(begun, end, is_partial=pause is None)
        self._ready = None if pause is None else (begun, end, heard)
        self._budget.spend(end - begun)
        spent = time.perf_counter() - started
        self._next = self._frames + int(max(self._partial, 1.5 * spent) * self._rate)
        return self._segments(heard, begun, end, is_final=False)

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

    def _rest(self) -> list[Segment]:
        """What a stream that collects segments has left at the end."""
        return []

    def _learn(self, heard: Heard) -> None:
        """One recording, one language."""
        if heard.text and heard.language:
            self.language = heard.language
            if self._options.language == AUTO:
                self._options = replace(self._options, language=heard.language)

    def _told(self, parts: Iterable[Spoken]) -> list[Segment]:
        return [segment for part in parts for segment in self._spoken(part)]

    def _spoken(self, part: Spoken) -> list[Segment]:
        self._next = 0
        if part.is_speech:
            return self._final(part.start, part.end)
        # A click: a partial result may have been given, which this one takes back.
        self._budget.begin()
        self._index += 1
        return [Segment(self._index - 1, part.start / self._rate, part.end / self._rate, "")]

    def _final(self, start: int, end: int) -> list[Segment]:
        is_ready = self._ready is not None and self._ready[:2] == (start, end)
        heard = self._ready[2] if self._ready is not None and is_ready else self._listen(start, end, is_partial=False)
        self._budget.settle(end - start, is_ready=is_ready)
        self._budget.begin()
        self._ready = None
        self._segments_told += 1
        if heard.text and self._is_unsure(heard):
            self._unsure += 1
            self._unsure_seconds += (end - start) / self._rate
        else:
            self._learn(heard)
        made = self._segments(heard, start, end, is_final=True)
        self._index += len(made)
        return made

    def _listen(self, start: int, end: int, *, is_partial: bool) -> Heard:
        started = time.perf_counter()
        options = replace(self._options, partial=is_partial)
        heard = self._hear(self._kept[start - self._first : end - self._first], options)
        self.hearing_seconds += time.perf_counter() - started
        return heard

    def _is_unsure(self, heard: Heard) -> bool:
        """Whether the text is probably invented. A model that repeats itself is surer each time."""
        least = self._parts.least_confidence
        repeats = least > 0 and compression_ratio(heard.text) > _REPETITIVE
        return heard.confidence < (max(least, _SURE) if repeats else least)

    def _segments(self, heard: Heard, start: int, end: int, *, is_final: bool) -> list[Segment]:
        """One or more of a final text (a model may tell its parts), one of a partial one."""
        at, seconds = start / self._rate, (end - start) / self._rate
        if self._is_unsure(heard):
            return [segment_of(replace(heard, language=""), Piece(0.0, seconds, ""), self._index, at, final=is_final)]
        whole = Piece(0.0, seconds, heard.text, heard.tokens, heard.words, heard.logs)
        pieces = (heard.pieces if is_final else ()) or (whole,)
        return [segment_of(heard, one, self._index + number, at, final=is_final) for number, one in enumerate(pieces)]


def segment_of(heard: Heard, piece: Piece, index: int, at: float, *, final: bool = True) -> Segment:
    """A part of what was heard in sound that begins `at` these seconds of the stream."""
    words = tuple(Word(at + one.start, at + one.end, one.text, one.probability) for one in piece.words)
    return Segment(
        index, at + piece.start, at + piece.end, piece.text, final, heard.confidence, piece.tokens, words,
        heard.language, heard.avg_logprob, heard.no_speech_prob, heard.temperature, piece.logs, tags=heard.tags,
    )  # fmt: skip
