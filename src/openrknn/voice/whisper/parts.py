"""The parts of a window's text, by the tokens for times between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openrknn.voice.listener import Heard, Piece
from openrknn.voice.whisper.search import Result
from openrknn.voice.whisper.vocabulary import STEP_SECONDS, Vocabulary

_FRAME_SECONDS = 0.01
_STRIDE = 2
"""Frames of the spectrum for one step of time."""


@dataclass(frozen=True, slots=True)
class Part:
    """Seconds from the beginning of the window, and tokens with those for times."""

    start: float
    end: float
    tokens: tuple[int, ...]
    logs: tuple[float, ...] = ()

    def text(self, vocabulary: Vocabulary) -> str:
        return vocabulary.text(self.tokens)

    def piece(self, vocabulary: Vocabulary) -> Piece:
        return Piece(self.start, self.end, self.text(vocabulary).strip(), self.tokens, (), self.logs)


@dataclass(frozen=True, slots=True)
class Advance:
    """Where the next window begins, in frames, and whether the text said that nothing follows its last time."""

    frames: int
    is_complete: bool


def cut(result: Result, frames: int, vocabulary: Vocabulary, *, keep_rest: bool = False) -> tuple[list[Part], Advance]:
    """As OpenAI's program cuts: at two times in a row. What is behind the last one belongs to the next window.

    `keep_rest`: there is no next window, so the rest is a part, too.
    """
    first, tokens, logs = vocabulary.first_time, result.tokens, result.logs
    is_time = [token >= first for token in tokens]
    is_complete = is_time[-2:] == [False, True]
    slices = [at + 1 for at in range(len(tokens) - 1) if is_time[at] and is_time[at + 1]]
    if not slices:
        end = frames * _FRAME_SECONDS
        times = [token for token in tokens if token >= first]
        if times and times[-1] != first:
            end = (times[-1] - first) * STEP_SECONDS
        return [Part(0.0, end, tokens, logs)], Advance(frames, is_complete)
    if is_complete:
        slices.append(len(tokens))
    parts, last = [], 0
    for stop in slices:
        own = tokens[last:stop]
        start, end = ((token - first) * STEP_SECONDS for token in (own[0], own[-1]))
        parts.append(Part(start, end, own, logs[last:stop]))
        last = stop
    if is_complete:
        return parts, Advance(frames, is_complete=True)
    if keep_rest:
        rest = tokens[last:]
        if any(token < vocabulary.end for token in rest):
            parts.append(Part((rest[0] - first) * STEP_SECONDS, frames * _FRAME_SECONDS, rest, logs[last:]))
        return parts, Advance(frames, is_complete=True)
    return parts, Advance((tokens[last - 1] - first) * _STRIDE, is_complete=False)


def heard_of(result: Result) -> Heard:
    """With the values of the window; without parts."""
    return Heard(
        result.text, result.tokens, float(np.exp(result.avg_logprob)), language=result.language,
        no_speech_prob=result.no_speech_prob, temperature=result.temperature, logs=result.logs,
    )  # fmt: skip
