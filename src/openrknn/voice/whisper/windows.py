"""Recordings: windows that slide by the times in the text, or that are packed with what somebody said."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from openrknn.voice.audio.sound import Samples
from openrknn.voice.errors import AudioError
from openrknn.voice.features import whisper_levels, whisper_logs
from openrknn.voice.listener import AUTO, Heard, Piece, StreamParts
from openrknn.voice.results import Segment, Word
from openrknn.voice.segments import Spoken
from openrknn.voice.stream import TranscriptStream, segment_of
from openrknn.voice.whisper.model import WhisperModel
from openrknn.voice.whisper.parts import cut, heard_of

_HOP, _HALF = 160, 200
"""Samples between frames, and half of a frame."""
_HOT = 0.5
"""A temperature from which on the text is no context for the next window."""


class SlidingStream:
    """Windows of 30 s, each beginning where the text of the one before ended, which is its context: as OpenAI does.

    The sound that the next window needs is held, nothing of what was before. Levels are relative to the loudest sound
    of the recording: `survey` looks for it where the recording can be read twice, else it is what came until now.
    """

    def __init__(self, model: WhisperModel, parts: StreamParts) -> None:
        self._model, self._options, self._on_close = model, parts.options, parts.on_close
        self.warnings = parts.warnings
        self.language = "" if parts.options.language == AUTO else parts.options.language
        self.on_chance: Callable[[float, float], None] | None = None
        self.hearing_seconds = 0.0
        self._held: Samples = np.zeros(0, np.float32)
        self._first = self._count = 0
        """Samples: where the held ones begin; how many came."""
        self._seek = self._index = 0
        """The next window's first frame; the next segment."""
        self._loudest = -np.inf
        self._is_surveyed = self._is_over = False
        self._said: tuple[int, ...] = ()
        self._last_end = 0.0

    @property
    def seconds(self) -> float:
        """Sound that came, in all."""
        return self._count / self._model.rate

    def survey(self, parts: Iterable[Samples]) -> None:
        """Look through all of the recording for its loudest sound, before it is fed."""
        rest: Samples = np.zeros(_HALF, np.float32)
        for part in parts:
            rest = np.concatenate([rest, np.asarray(part, np.float32)])
            if len(rest) >= self._model.rate:
                self._look(rest)
                rest = rest[-2 * _HALF :]
        self._look(np.concatenate([rest, np.zeros(2 * _HALF, np.float32)]))
        self._is_surveyed = True

    def _look(self, samples: Samples) -> None:
        logs = whisper_logs(samples, bands=self._model.bands)
        if logs.size:
            self._loudest = max(self._loudest, float(logs.max()))

    def feed(self, samples: npt.NDArray[Any]) -> list[Segment]:
        """More sound: the text of every window that is full."""
        if self._is_over:
            raise AudioError("this stream is finished; begin another one with `stream()`")
        block = np.asarray(samples, np.float32).reshape(-1)
        if not np.isfinite(block).all():
            raise AudioError(f"after {self.seconds:.2f} s come numbers that are not finite (NaN or infinite)")
        self._held = np.concatenate([self._held, block])
        self._count += len(block)
        found: list[Segment] = []
        while self._count >= (self._seek + self._model.frames) * _HOP + _HALF:
            found += self._window(self._model.frames)
        return found

    def finish(self) -> list[Segment]:
        """The rest, completed with silence."""
        if self._is_over:
            return []
        self._is_over = True
        found: list[Segment] = []
        try:
            while (left := self._count // _HOP - self._seek) > 0:
                found += self._window(min(left, self._model.frames))
        finally:
            self._release()
        return found

    def close(self) -> None:
        """Discard the rest."""
        if not self._is_over:
            self._is_over = True
            self._release()

    def _release(self) -> None:
        self._held = np.zeros(0, np.float32)
        if self._on_close is not None:
            self._on_close()

    # -- inside --------------------------------------------------------------------------------------------------

    def _window(self, frames: int) -> list[Segment]:
        started = time.perf_counter()
        mel = self._mel(frames)
        options = replace(self._options, previous=self._said, prompt="" if self._said else self._options.prompt)
        result = self._model.window(mel, options)
        if not self.language:
            self.language = result.language
            self._options = replace(self._options, language=result.language)
        at = self._seek * _HOP / self._model.rate
        if self._options.filters and result.is_silence:
            self._move(self._seek + frames)
            self.hearing_seconds += time.perf_counter() - started
            return []
        vocabulary = self._model.vocabulary
        parts, advance = cut(result, frames, vocabulary)
        next_frame = self._seek + advance.frames
        if self._options.words:
            pieces = self._model.align(parts, result, frames, self._last_end - at)
            ends = [word.end for piece in pieces for word in piece.words]
            if ends:
                self._last_end = at + ends[-1]
                if not advance.is_complete and ends[-1] > 0:
                    next_frame = self._seek + round(ends[-1] * self._model.rate / _HOP)
        else:
            pieces = [part.piece(vocabulary) for part in parts]
        pieces = [piece for piece in pieces if piece.start != piece.end and piece.text]
        heard = _without_pieces(result, pieces)
        made = [segment_of(heard, piece, self._index + number, at) for number, piece in enumerate(pieces)]
        self._index += len(made)
        self._remember([token for piece in pieces for token in piece.tokens], result.temperature)
        self._move(next_frame if next_frame > self._seek else self._seek + frames)
        self.hearing_seconds += time.perf_counter() - started
        return made

    def _remember(self, tokens: list[int], temperature: float) -> None:
        options = self._options
        begun = self._said or tuple(
            self._model.vocabulary.encode(f" {options.prompt.strip()}") if options.prompt else ()
        )
        is_kept = options.context and temperature <= _HOT
        self._said = (*begun, *tokens)[-1000:] if is_kept else ()
        if not is_kept:
            self._options = replace(options, prompt="")

    def _mel(self, frames: int) -> npt.NDArray[np.float32]:
        """The next window's spectrum, with the sound around it."""
        begin, end = self._seek * _HOP - _HALF, (self._seek + frames - 1) * _HOP + _HALF
        sound = self._held[max(0, begin - self._first) : end - self._first]
        if begin < 0:
            sound = np.pad(sound, (0, max(0, _HALF + 1 - len(sound))))
            sound = np.concatenate([sound[_HALF:0:-1], sound])
        sound = np.pad(sound, (0, max(0, end - begin - len(sound))))
        logs = whisper_logs(sound, bands=self._model.bands)[:, :frames]
        if not self._is_surveyed:
            self._loudest = max(self._loudest, float(logs.max()))
        return whisper_levels(logs, self._loudest)

    def _move(self, frame: int) -> None:
        self._seek = frame
        keep = max(0, min(frame * _HOP - _HALF, self._count))
        if keep > self._first:
            self._held = self._held[keep - self._first :].copy()
            self._first = keep


def _without_pieces(result: Any, pieces: list[Piece]) -> Heard:
    return replace(heard_of(result), pieces=tuple(pieces))


class PackedStream(TranscriptStream):
    """Windows filled with speech: what is said between pauses is joined up to 30 s, and times are mapped back.

    An encoder's run costs the same for a second as for thirty, so few full windows are faster than many short ones,
    and silence, in which the model invents text, is not heard.
    """

    def __init__(self, model: WhisperModel, parts: StreamParts) -> None:
        super().__init__(parts, rate=model.rate)
        self._most = model.frames * _HOP
        self._spans: list[tuple[int, int]] = []
        self._waiting: list[Samples] = []
        self._sum = 0

    def _told(self, parts: Iterable[Spoken]) -> list[Segment]:
        found: list[Segment] = []
        for part in parts:
            if not part.is_speech:
                continue
            if self._sum + part.end - part.start > self._most:
                found += self._flush()
            self._waiting.append(self._kept[part.start - self._first : part.end - self._first].copy())
            self._spans.append((part.start, part.end))
            self._sum += part.end - part.start
        return found

    def _rest(self) -> list[Segment]:
        return self._flush()

    def _flush(self) -> list[Segment]:
        if not self._waiting:
            return []
        sound, spans = np.concatenate(self._waiting)[: self._most], self._spans
        self._waiting, self._spans, self._sum = [], [], 0
        started = time.perf_counter()
        heard = self._hear(sound, self._options)
        self.hearing_seconds += time.perf_counter() - started
        self._learn(heard)
        whole = Piece(0.0, len(sound) / self._rate, heard.text, heard.tokens, heard.words, heard.logs)
        pieces = heard.pieces or (whole,)
        made = []
        for piece in pieces:
            if piece.text:
                made.append(segment_of(heard, self._mapped(piece, spans), self._index, 0.0))
                self._index += 1
        return made

    def _mapped(self, piece: Piece, spans: list[tuple[int, int]]) -> Piece:
        words = tuple(
            Word(self._back(one.start, spans), self._back(one.end, spans, is_end=True), one.text, one.probability)
            for one in piece.words
        )
        start, end = self._back(piece.start, spans), self._back(piece.end, spans, is_end=True)
        return replace(piece, start=start, end=max(start, end), words=words)

    def _back(self, seconds: float, spans: list[tuple[int, int]], *, is_end: bool = False) -> float:
        """When in the recording this second of the window was."""
        left = round(seconds * self._rate)
        for start, end in spans:
            if left < end - start or (is_end and left == end - start):
                return (start + left) / self._rate
            left -= end - start
        return spans[-1][1] / self._rate
